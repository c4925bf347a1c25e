//! Owns the user's configuration: five keys, taken fresh at each use, none of them needed.
//! Never writes the file and never lets a wrong key stop a start: what cannot be used is named.
//! Tested below.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gent_protocol::ModelId;
use serde_json::Value;

/// The keys there are.
const KEYS: [&str; 5] = ["model", "resume", "synchronous", "idleExitMinutes", "streamIdleSeconds"];
/// Bytes of the file that are read. Beyond it: not used, and said so.
const FILE_BYTES: u64 = 1024 * 1024;

/// What the user configured, and one sentence for each thing that could not be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The model of a session that names none.
    pub model: Option<ModelId>,
    /// Whether unfinished turns go on by themselves at a start; yes when absent.
    pub resume: Option<bool>,
    /// Whether a commit survives the loss of power; no when absent.
    pub is_fully_synchronous: Option<bool>,
    /// Minutes without need after which a server ends; 0 is never.
    pub idle_exit_minutes: Option<u32>,
    /// Seconds without data after which a model's stream counts as dead.
    pub stream_idle_seconds: Option<u32>,
    /// What is wrong with the file.
    pub complaints: Vec<String>,
}

impl Config {
    /// Reads the file; one that is missing is empty.
    pub fn read(path: Option<&Path>) -> Self {
        let Some(path) = path else { return Self::default() };
        match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Self::default(),
            Ok(facts) if facts.len() > FILE_BYTES => {
                return Self::unusable(format!("{} is larger than 1 MiB and is not used", path.display()));
            }
            Ok(_) | Err(_) => {}
        }
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(path, &text),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Self::unusable(format!("{} is not UTF-8 and is not used", path.display()))
            }
            Err(_) => Self::unusable(format!("{} cannot be read: check its rights", path.display())),
        }
    }

    fn unusable(complaint: String) -> Self {
        Self { complaints: vec![complaint], ..Self::default() }
    }

    fn parse(path: &Path, text: &str) -> Self {
        let path = path.display();
        let fields = match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Self::unusable(format!("{path} must hold one JSON object and is not used")),
            Err(error) => {
                let (line, column) = (error.line(), error.column());
                return Self::unusable(format!(
                    "{path} is not JSON at line {line}, column {column}, and is not used: correct it there"
                ));
            }
        };
        let mut config = Self::default();
        for (key, value) in &fields {
            if let Err(wanted) = config.set(key, value) {
                config.complaints.push(format!("{path}: {wanted}"));
            }
        }
        config
    }

    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let wants = |what: &str| format!("`{key}` must be {what}; it is not used");
        let count = || value.as_u64().and_then(|n| u32::try_from(n).ok());
        match key {
            "model" => {
                let model = value.as_str().and_then(|text| ModelId::parse(text).ok());
                self.model = Some(model.ok_or_else(|| wants("a text `provider/name`"))?);
            }
            "resume" => {
                self.resume = Some(match value.as_str() {
                    Some("all") => true,
                    Some("none") => false,
                    _ => return Err(wants("\"all\" or \"none\"")),
                });
            }
            "synchronous" => {
                self.is_fully_synchronous = Some(match value.as_str() {
                    Some("normal") => false,
                    Some("full") => true,
                    _ => return Err(wants("\"normal\" or \"full\"")),
                });
            }
            "idleExitMinutes" => {
                self.idle_exit_minutes = Some(count().ok_or_else(|| wants("a whole number; 0 is never"))?);
            }
            "streamIdleSeconds" => {
                let seconds = count().filter(|seconds| *seconds > 0);
                self.stream_idle_seconds = Some(seconds.ok_or_else(|| wants("a whole number above 0"))?);
            }
            unknown => return Err(unknown_key(unknown)),
        }
        Ok(())
    }
}

/// What tells one content of a file from the next: a change of the content changes at least one of its times, its
/// size or the file itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    /// None where there is no file.
    fn of(path: &Path) -> Option<Self> {
        let facts = std::fs::metadata(path).ok()?;
        Some(Self {
            inode: facts.ino(),
            bytes: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

/// The configuration while a server runs: one look at the file's facts for each use, one reading for each change.
#[derive(Debug, Default)]
pub(crate) struct LiveConfig {
    path: Option<PathBuf>,
    last: Mutex<Option<(Option<Stamp>, Arc<Config>)>>,
}

impl LiveConfig {
    /// Reads nothing yet.
    pub(crate) fn new(path: Option<PathBuf>) -> Self {
        Self { path, last: Mutex::default() }
    }

    /// The configuration as it is now.
    pub(crate) fn now(&self) -> Arc<Config> {
        // Before the reading: a change meanwhile is found at the next use.
        let stamp = self.path.as_deref().and_then(Stamp::of);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, config)) = &*last
            && *of == stamp
        {
            return Arc::clone(config);
        }
        let config = Arc::new(Config::read(self.path.as_deref()));
        *last = Some((stamp, Arc::clone(&config)));
        config
    }
}

fn unknown_key(key: &str) -> String {
    let nearest = KEYS
        .iter()
        .map(|known| (strsim::jaro_winkler(&known.to_lowercase(), &key.to_lowercase()), known))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match nearest {
        Some((closeness, nearest)) if closeness > 0.75 => {
            format!("there is no key `{key}`; the nearest is `{nearest}`")
        }
        _ => format!("there is no key `{key}`; the keys are {}", KEYS.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Config {
        Config::parse(Path::new("/c.json"), text)
    }

    #[test]
    fn every_key_is_read() {
        let config = parse(
            r#"{"model":"openai/x","resume":"none","synchronous":"full","idleExitMinutes":0,"streamIdleSeconds":9}"#,
        );
        assert_eq!(
            config,
            Config {
                model: ModelId::parse("openai/x").ok(),
                resume: Some(false),
                is_fully_synchronous: Some(true),
                idle_exit_minutes: Some(0),
                stream_idle_seconds: Some(9),
                complaints: vec![],
            }
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_its_nearest_and_the_others_count() {
        let config = parse(r#"{"modell":"a/b","resume":"none","colour":1}"#);
        assert_eq!(config.resume, Some(false));
        assert_eq!(
            config.complaints,
            [
                "/c.json: there is no key `modell`; the nearest is `model`",
                "/c.json: there is no key `colour`; the keys are model, resume, synchronous, idleExitMinutes, \
                 streamIdleSeconds"
            ]
        );
    }

    #[test]
    fn a_value_of_the_wrong_form_is_named_and_not_used() {
        for (text, word) in [
            (r#"{"model":"x"}"#, "provider/name"),
            (r#"{"resume":true}"#, "\"all\""),
            (r#"{"synchronous":"off"}"#, "\"full\""),
            (r#"{"idleExitMinutes":-1}"#, "whole number"),
            (r#"{"streamIdleSeconds":0}"#, "above 0"),
        ] {
            let config = parse(text);
            assert_eq!(config.complaints.len(), 1, "{text}");
            assert!(config.complaints[0].contains(word), "{:?}", config.complaints);
            assert_eq!(Config { complaints: vec![], ..config }, Config::default());
        }
    }

    #[test]
    fn a_change_of_the_file_counts_at_the_next_use_and_an_unchanged_one_is_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.json");
        let live = LiveConfig::new(Some(file.clone()));
        assert_eq!(*live.now(), Config::default());
        std::fs::write(&file, r#"{"streamIdleSeconds":7}"#).unwrap();
        assert_eq!(live.now().stream_idle_seconds, Some(7));
        assert!(Arc::ptr_eq(&live.now(), &live.now()), "read once");
        // Of the same size, and put in its place as editors do.
        let neighbour = dir.path().join("config.json.new");
        std::fs::write(&neighbour, r#"{"streamIdleSeconds":9}"#).unwrap();
        std::fs::rename(&neighbour, &file).unwrap();
        assert_eq!(live.now().stream_idle_seconds, Some(9));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(*live.now(), Config::default());
    }

    #[test]
    fn a_broken_file_is_named_with_its_place_and_stops_nothing() {
        let config = parse("{\n  \"model\": \n}");
        assert!(config.complaints[0].contains("line 3"), "{:?}", config.complaints);
        assert!(parse("[]").complaints[0].contains("one JSON object"));
        assert_eq!(Config::read(Some(Path::new("/nowhere/config.json"))), Config::default());
        let dir = tempfile::tempdir().unwrap();
        assert!(Config::read(Some(dir.path())).complaints[0].contains("cannot be read"));
        let file = dir.path().join("c.json");
        std::fs::write(&file, [0xff]).unwrap();
        assert!(Config::read(Some(&file)).complaints[0].contains("UTF-8"));
    }
}
