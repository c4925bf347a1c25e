//! Owns the forms in which programs print a secret. Never searches. Tested in `redact.rs`.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::SECRET_MIN_BYTES;

/// The secret as it is, escaped for JSON, percent-encoded as a component, a form or a path, and in base64.
pub(super) fn forms_of(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    if let Ok(quoted) = serde_json::to_string(secret) {
        forms.extend(quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).map(str::to_owned));
    }
    for (kept, space) in [(COMPONENT, "%20"), (COMPONENT, "+"), (PATH, "%20")] {
        let encoded = percent_encode(secret, kept, space);
        forms.push(lower_hex(&encoded));
        forms.push(encoded);
    }
    forms.extend((0..3).flat_map(|offset| base64_at(secret.as_bytes(), offset)));
    forms
}

/// Never encoded in a component of an address.
const COMPONENT: &str = "-_.~";
/// Never encoded in a path or query by programs that encode little.
const PATH: &str = "-_.~!$&'()*+,;=:@/?";

fn percent_encode(secret: &str, kept: &str, space: &str) -> String {
    let mut encoded = String::with_capacity(secret.len() + 8);
    for byte in secret.bytes() {
        let letter = char::from(byte);
        if letter.is_ascii_alphanumeric() || (byte.is_ascii() && kept.contains(letter)) {
            encoded.push(letter);
        } else if byte == b' ' {
            encoded.push_str(space);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

/// The same with small letters in the hex digits.
fn lower_hex(encoded: &str) -> String {
    let mut n_digits = 0;
    encoded
        .chars()
        .map(|letter| {
            if letter == '%' {
                n_digits = 2;
                letter
            } else if n_digits > 0 {
                n_digits -= 1;
                letter.to_ascii_lowercase()
            } else {
                letter
            }
        })
        .collect()
}

/// The letters of base64 that stand for nothing but the secret, when `offset` bytes (modulo 3) precede it.
/// Letters at the edges also hold bits of what is around it and are left out.
fn base64_at(secret: &[u8], offset: usize) -> Vec<String> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(secret);
    // `offset` bytes touch the first `offset + 1` letters. A rest of 1 or 2 bytes ends in a letter that the
    // next byte would change.
    let first = if offset == 0 { 0 } else { offset + 1 };
    let is_cut = !padded.len().is_multiple_of(3);
    [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)]
        .iter()
        .filter_map(|encoded| encoded.get(first..encoded.len() - usize::from(is_cut)))
        // Too short a rest would be found everywhere.
        .filter(|form| form.len() >= SECRET_MIN_BYTES)
        .map(str::to_owned)
        .collect()
}
