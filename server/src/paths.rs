//! Owns where everything of a server lies: one data directory, and the user's configuration beside it.
//! Never touches the disk. Tested below.

use std::path::{Path, PathBuf};

use gent_client::NoDataDirectory;

use crate::Environment;

/// The files of one data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    data_dir: PathBuf,
    home: Option<PathBuf>,
    database: Option<String>,
}

impl Paths {
    /// The data directory is `data_dir`, else `GENT_DATA_DIR`, else `.gent` in the home directory; a relative one is
    /// taken from the working directory.
    pub fn find(environment: &Environment, data_dir: Option<&Path>) -> Result<Self, NoDataDirectory> {
        let home = environment.var_os("HOME");
        let named = data_dir.map(Path::as_os_str).or_else(|| environment.var_os("GENT_DATA_DIR"));
        Ok(Self {
            data_dir: gent_client::data_directory(named, home, environment.cwd())?,
            home: home.map(|home| environment.cwd().join(home)),
            database: environment.var("GENT_DATABASE_URL").map(str::to_owned),
        })
    }

    /// The same user with another data directory, and the database in it.
    pub fn with_data_dir(&self, data_dir: PathBuf) -> Self {
        Self { data_dir, home: self.home.clone(), database: None }
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The user's home, where there is one.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The directory of user configuration: `~/.gent`, wherever the data is.
    pub fn gent_home(&self) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(".gent"))
    }

    /// The user configuration.
    pub fn config(&self) -> Option<PathBuf> {
        self.gent_home().map(|home| home.join("config.json"))
    }

    /// What `GENT_DATABASE_URL` says, if it is set.
    pub(crate) fn database_url(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// The database of the data directory.
    pub(crate) fn database(&self) -> PathBuf {
        self.data_dir.join("data.db")
    }

    /// The lock that its server holds.
    pub(crate) fn lock(&self) -> PathBuf {
        self.data_dir.join("gent.lock")
    }

    /// The lock that the helpers of its processes share.
    pub(crate) fn children_lock(&self) -> PathBuf {
        self.data_dir.join("children.lock")
    }

    /// The log.
    pub fn log(&self) -> PathBuf {
        self.data_dir.join("logs").join("server.log")
    }

    /// Copies of the database from before a migration.
    pub(crate) fn backups(&self) -> PathBuf {
        self.data_dir.join("backups")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        Environment::of(variables.iter().map(|(n, v)| (n.into(), v.into())), "/cwd", "/bin/gent")
    }

    #[test]
    fn an_option_wins_over_the_variable_and_the_variable_over_home() {
        let both = environment(&[("HOME", "/home/u"), ("GENT_DATA_DIR", "d")]);
        assert_eq!(Paths::find(&both, Some(Path::new("x"))).unwrap().data_dir(), Path::new("/cwd/x"));
        assert_eq!(Paths::find(&both, None).unwrap().data_dir(), Path::new("/cwd/d"));
        let home = environment(&[("HOME", "/home/u"), ("GENT_DATA_DIR", "")]);
        let paths = Paths::find(&home, None).unwrap();
        assert_eq!(paths.data_dir(), Path::new("/home/u/.gent"));
        assert_eq!(paths.config(), Some("/home/u/.gent/config.json".into()));
    }

    #[test]
    fn without_home_the_data_directory_must_be_named_and_there_is_no_configuration() {
        assert!(Paths::find(&environment(&[]), None).unwrap_err().to_string().contains("GENT_DATA_DIR"));
        let named = Paths::find(&environment(&[("GENT_DATA_DIR", "/d")]), None).unwrap();
        assert_eq!((named.data_dir(), named.config()), (Path::new("/d"), None));
    }
}
