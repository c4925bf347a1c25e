//! Owns how `gent doctor` prints what the library finds. Tested below.

use gent_server::{DoctorLine, Environment, Paths};

use super::arguments::ListOptions;
use super::failure::{EXIT_FAILED, Failure, say, say_json};
use super::runtime::block_on;

/// `gent doctor`: exit code 1 when a line fails.
pub(crate) fn doctor(options: &ListOptions, environment: &Environment) -> Result<u8, Failure> {
    let paths = Paths::find(environment, None)?;
    let lines = block_on(async { Ok(gent_server::doctor(&paths, environment).await) })?;
    if options.json {
        say_json(&gent_protocol::Page::whole(lines.iter().collect::<Vec<_>>()))?;
    } else {
        say(&render(&lines))?;
    }
    Ok(if lines.iter().all(|line| line.ok) { 0 } else { EXIT_FAILED })
}

fn render(lines: &[DoctorLine]) -> String {
    let width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for line in lines {
        let mark = if line.ok { "ok  " } else { "FAIL" };
        out.push_str(&format!("{mark}  {:<width$}  {}\n", line.name, line.detail));
        if let Some(repair) = &line.repair {
            out.push_str(&format!("      {:<width$}  → {repair}\n", ""));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_fails_says_what_to_do() {
        let lines = [
            DoctorLine { name: "lock", ok: true, detail: "free".into(), repair: None },
            DoctorLine {
                name: "database",
                ok: false,
                detail: "the schema is newer".into(),
                repair: Some("install the newer gent".into()),
            },
        ];
        let expected = "\
ok    lock      free
FAIL  database  the schema is newer
                → install the newer gent
";
        assert_eq!(render(&lines), expected);
    }
}
