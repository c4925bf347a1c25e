//! Owns what a golden is: a named value and the JSON file it must equal, both ways.
//! Never knows a wire type. Tested by being run.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Compares the golden's text with the built value, after decoding.
type Check = Box<dyn Fn(&str) -> Result<(), String>>;

/// One golden.
pub(crate) struct Case {
    /// The file's name without `.json`.
    pub(crate) name: String,
    built: Value,
    check: Check,
}

/// The golden `name` of `built`.
pub(crate) fn case<T>(name: impl Into<String>, built: T) -> Case
where
    T: Serialize + DeserializeOwned + PartialEq + Debug + 'static,
{
    let encoded = serde_json::to_value(&built).unwrap();
    let check = Box::new(move |json: &str| match serde_json::from_str::<T>(json) {
        Ok(decoded) if decoded == built => Ok(()),
        Ok(decoded) => Err(format!("decodes to {decoded:?}, not to {built:?}")),
        Err(error) => Err(format!("does not decode: {error}")),
    });
    Case { name: name.into(), built: encoded, check }
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden"))
}

/// The names of all files in `golden/`.
pub(crate) fn golden_names() -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.strip_suffix(".json").unwrap_or(&name).to_owned()).collect()
}

impl Case {
    /// What is wrong, if anything.
    pub(crate) fn fault(&self) -> Option<String> {
        let path = directory().join(format!("{}.json", self.name));
        if std::env::var_os("GENT_GOLDEN_WRITE").is_some() {
            let text = serde_json::to_string_pretty(&self.built).unwrap() + "\n";
            std::fs::write(&path, text).unwrap();
        }
        let Ok(json) = std::fs::read_to_string(&path) else {
            return Some(format!("{}: no golden file", self.name));
        };
        let golden: Value = serde_json::from_str(&json).unwrap();
        if golden != self.built {
            return Some(format!("{}: encodes to {}, golden is {golden}", self.name, self.built));
        }
        (self.check)(&json).err().map(|fault| format!("{}: {fault}", self.name))
    }
}
