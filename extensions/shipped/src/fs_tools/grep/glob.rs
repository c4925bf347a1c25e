//! Owns which files a `glob` of a search admits. Never touches the disk. Tested below.

use std::path::Path;

use gent_extension_api::ToolError;
use globset::{GlobBuilder, GlobMatcher};

use super::tell_pattern;

/// A form that files must have.
#[derive(Debug)]
pub(super) struct Glob {
    matcher: GlobMatcher,
    is_path: bool,
}

impl Glob {
    /// Parses a glob: one without a slash is about names, one with a slash about paths.
    pub(super) fn parse(text: &str) -> Result<Self, ToolError> {
        let trimmed = text.strip_prefix("./").unwrap_or(text);
        let is_path = trimmed.contains('/');
        let trimmed = trimmed.strip_prefix('/').unwrap_or(trimmed);
        let glob = GlobBuilder::new(trimmed)
            .literal_separator(true)
            .build()
            .map_err(|error| tell_pattern("glob", text, &error.to_string()))?;
        Ok(Self { matcher: glob.compile_matcher(), is_path })
    }

    /// True for a file of this form; `relative` is its path from the searched directory.
    pub(super) fn admits(&self, relative: &Path) -> bool {
        match relative.file_name() {
            Some(name) if !self.is_path => self.matcher.is_match(name),
            _ => self.matcher.is_match(relative),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_makes_a_glob_about_paths() {
        let admits = |glob: &str, path: &str| Glob::parse(glob).unwrap().admits(Path::new(path));
        assert!(admits("*.rs", "a/b.rs"));
        assert!(admits("*.{rs,toml}", "a/b.toml"));
        assert!(!admits("*.rs", "a.rs/b"));
        assert!(admits("a/*.rs", "a/b.rs"));
        assert!(!admits("a/*.rs", "a/c/b.rs"));
        assert!(admits("a/**/*.rs", "a/c/d/b.rs"));
        assert!(admits("**/b.rs", "b.rs"));
        assert!(admits("./a/*", "a/b"));
        assert!(admits("/b", "b"));
        assert!(!admits("/b", "a/b"));
    }

    #[test]
    fn a_broken_glob_is_told() {
        assert!(Glob::parse("a[").unwrap_err().to_string().starts_with("the glob \"a[\" is not valid"));
    }
}
