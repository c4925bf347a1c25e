//! Owns the words of the demo: the file it writes and the answer it gives. Pure.
//! Never claims what was not seen. Tested in `tests/it/providers_demo.rs`.

use super::REPORT_FILE;
use super::listing::Listing;
use super::survey::Survey;

/// The first line of the file: by it a later demo knows the file for its own.
pub(super) const FIRST_LINE: &str = "# gent demo report";

const MADE_OF_RULES: &str = "These words were put together by fixed rules, not by a language model.";

/// Extension and language.
const LANGUAGES: [(&str, &str); 34] = [
    ("rs", "Rust"),
    ("py", "Python"),
    ("ts", "TypeScript"),
    ("tsx", "TypeScript"),
    ("js", "JavaScript"),
    ("jsx", "JavaScript"),
    ("mjs", "JavaScript"),
    ("go", "Go"),
    ("java", "Java"),
    ("kt", "Kotlin"),
    ("swift", "Swift"),
    ("c", "C"),
    ("h", "C"),
    ("cc", "C++"),
    ("cpp", "C++"),
    ("hpp", "C++"),
    ("cs", "C#"),
    ("rb", "Ruby"),
    ("php", "PHP"),
    ("ex", "Elixir"),
    ("hs", "Haskell"),
    ("scala", "Scala"),
    ("lua", "Lua"),
    ("zig", "Zig"),
    ("sh", "Shell"),
    ("sql", "SQL"),
    ("html", "HTML"),
    ("css", "CSS"),
    ("md", "Markdown"),
    ("json", "JSON"),
    ("toml", "TOML"),
    ("yaml", "YAML"),
    ("yml", "YAML"),
    ("txt", "plain text"),
];

/// The content of the report file.
pub(super) fn file(survey: &Survey) -> String {
    format!("{FIRST_LINE}\n\n{MADE_OF_RULES}\n\n{}\n", findings(survey).join("\n\n"))
}

/// The answer at the end of the turn.
pub(super) fn answer(survey: &Survey) -> String {
    let mut paragraphs = vec![format!("{MADE_OF_RULES} The tools behind them were real.")];
    if let Some(task) = &survey.task {
        let task = task.lines().next().unwrap_or_default();
        paragraphs.push(format!("Your task, \"{task}\", needs a real model; the demo only looks around."));
    }
    paragraphs.extend(findings(survey));
    paragraphs.push(saved(survey));
    let of_report = match survey.written {
        Some(Ok(())) => format!("- read {REPORT_FILE}, and delete it when you are done;\n"),
        Some(Err(_)) | None => String::new(),
    };
    paragraphs.push(format!(
        "What to try next:\n\
         {of_report}\
         - set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start a local model server, and run: gent run \"{}\";\n\
         - list your sessions with: gent sessions",
        next_prompt(survey)
    ));
    paragraphs.join("\n\n")
}

fn findings(survey: &Survey) -> Vec<String> {
    let mut paragraphs = Vec::new();
    match &survey.listing {
        Some(Ok(listing)) => {
            paragraphs.push(listing.count_sentence());
            paragraphs.extend(languages(listing));
            if !listing.samples.is_empty() {
                let line = |path: &str, bytes: u64| format!("- {path}, {bytes} {}", plural(bytes, "byte"));
                let lines: Vec<String> =
                    listing.samples.iter().map(|sample| line(&sample.path, sample.bytes)).collect();
                paragraphs.push(format!("Some of the files:\n{}", lines.join("\n")));
            }
        }
        Some(Err(why)) => paragraphs.push(format!("The files could not be listed: {why}.")),
        None => paragraphs.push("The files were not listed: no shell tool is at hand.".to_owned()),
    }
    if let Some(found) = &survey.found {
        paragraphs.push(format!("A search found {}:{}:\n    {}", found.file, found.line, found.content));
    } else if survey.n_searches > 0 {
        paragraphs.push("A search for a line with a word found nothing.".to_owned());
    }
    if let Some((path, line)) = &survey.opening {
        paragraphs.push(format!("{path} begins with: {line}"));
    }
    paragraphs
}

fn languages(listing: &Listing) -> Option<String> {
    let mut counts: Vec<(String, u64)> = Vec::new();
    for (extension, n) in &listing.extensions {
        let known = LANGUAGES.iter().find(|(known, _)| known == extension);
        let name = match (known, extension.as_str()) {
            (Some((_, language)), _) => (*language).to_owned(),
            (None, "-") => continue,
            (None, other) => format!(".{other}"),
        };
        match counts.iter_mut().find(|(before, _)| *before == name) {
            Some((_, count)) => *count += n,
            None => counts.push((name, *n)),
        }
    }
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let named: Vec<String> =
        counts.iter().take(6).map(|(name, n)| format!("{name} ({n} {})", plural(*n, "file"))).collect();
    (!named.is_empty()).then(|| format!("Languages, by the ends of file names: {}.", named.join(", ")))
}

fn plural(n: u64, word: &str) -> String {
    if n == 1 { word.to_owned() } else { format!("{word}s") }
}

fn saved(survey: &Survey) -> String {
    match &survey.written {
        Some(Ok(())) => format!("All this is written down in {REPORT_FILE}."),
        Some(Err(why)) => format!("{REPORT_FILE} could not be written: {why}."),
        None if survey.may_write() => format!("{REPORT_FILE} was not written: no write tool is at hand."),
        None if survey.known_listing().is_some() => {
            format!("{REPORT_FILE} is somebody else's file, so it was left as it is.")
        }
        None => format!("{REPORT_FILE} was not written, because it is not known whether one is there."),
    }
}

fn next_prompt(survey: &Survey) -> String {
    match (&survey.task, &survey.found) {
        (Some(task), _) => task.lines().next().unwrap_or_default().replace('"', "'"),
        (None, Some(found)) if found.file != REPORT_FILE => {
            format!("Explain {} to a newcomer", found.file)
        }
        (None, _) => "Set up a small project here".to_owned(),
    }
}
