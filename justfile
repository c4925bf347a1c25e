# Recipes call plain cargo; `just` lists them.

set positional-arguments

# The feature set that CI builds: one set, so that one target directory serves all steps.
features := "gent-storage/postgres"

_default:
    @just --list

# Formats everything.
fmt:
    cargo fmt --all

# Format, lints and documentation, warnings denied.
check:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets --features {{features}} -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --features {{features}}

# All tests that need no PostgreSQL; arguments go to cargo.
test *arguments:
    cargo test --workspace {{arguments}}

# What must hold before a change lands, PostgreSQL included.
ci:
    .ci/run

# The measurements of docs/PERFORMANCE.md as one JSON object.
bench *arguments:
    cargo build --release --workspace
    cargo run --release -p gent-e2e --bin gent-bench -- --gent target/release/gent {{arguments}}

# Attacks a server of its own and reports as JSON.
attack *arguments:
    cargo build --release --workspace
    cargo run --release -p gent-e2e --bin gent-attack -- --gent target/release/gent {{arguments}}

# A whole turn without account or network.
demo *task:
    cargo run --release -- demo "$@"
