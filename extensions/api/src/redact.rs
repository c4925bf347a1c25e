//! Owns how known secrets are taken out of text. The host applies it to every tool result; an extension needs
//! it only for text it sends elsewhere. Tested in `actors`.

/// Takes known secrets out of text.
pub trait Redactor: Send + Sync {
    /// The text with every known secret replaced by `[REDACTED]`.
    fn redact(&self, text: &str) -> String;
}
