//! Owns the rules that the compiler does not check: who may import whom, how long files and tests may be, what the
//! documents say of the code. Reads the sources as text. Never starts anything.

#[cfg(test)]
#[path = "tidy/documents.rs"]
mod documents;
#[cfg(test)]
#[path = "tidy/imports.rs"]
mod imports;
#[cfg(test)]
#[path = "tidy/sources.rs"]
mod sources;
#[cfg(test)]
#[path = "tidy/tree.rs"]
mod tree;
