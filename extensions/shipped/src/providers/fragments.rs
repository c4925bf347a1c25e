//! Owns the encoded form of the messages of a conversation, so that a request costs the encoding of what is new
//! and one copy of the rest; and the byte budget of images.
//! Never decides how a message looks: the wire format's encoder does. Tested below.

use std::sync::{Arc, Mutex, PoisonError};

use gent_extension_api::protocol::{Message, Part, ReasoningEffort, SessionId};
use gent_extension_api::{HostMessage, ModelRequest, WireTool};

/// Whether the images of a message are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Images {
    /// As they are.
    Sent,
    /// As a sentence each: newer images fill the request.
    LeftOut,
}

/// A message in the form of a wire format.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Fragment {
    /// Its JSON; what exactly is the encoder's business. Empty: the message is not sent.
    pub bytes: Vec<u8>,
    /// The model's words, not the user's.
    pub is_assistant: bool,
    /// Where a cache marker can be inserted.
    pub mark_at: Option<usize>,
}

struct Entry {
    message: HostMessage,
    images: Images,
    fragment: Fragment,
}

/// The fragments of the conversation that was sent last.
#[derive(Default)]
pub(super) struct FragmentCache {
    entries: Mutex<Vec<Entry>>,
}

impl FragmentCache {
    /// Hands the fragments of `messages` to `assemble`. Only messages that were not at the same place in the last
    /// request are encoded; messages are compared by pointer.
    pub(super) fn assemble<R>(
        &self,
        messages: &[HostMessage],
        image_budget: usize,
        encode: impl Fn(&Message, Images) -> Fragment,
        assemble: impl FnOnce(&mut dyn Iterator<Item = &Fragment>) -> R,
    ) -> R {
        let images = share_images(messages, image_budget);
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, message) in messages.iter().enumerate() {
            let images = images.as_ref().and_then(|all| all.get(at)).copied().unwrap_or(Images::Sent);
            if let Some(entry) = entries.get(at)
                && Arc::ptr_eq(&entry.message, message)
                && entry.images == images
            {
                continue;
            }
            let entry = Entry { message: Arc::clone(message), images, fragment: encode(message, images) };
            match entries.get_mut(at) {
                Some(slot) => *slot = entry,
                None => entries.push(entry),
            }
        }
        entries.truncate(messages.len());
        assemble(
            &mut entries.iter().map(|entry| &entry.fragment).filter(|fragment| !fragment.bytes.is_empty()),
        )
    }

    /// Forgets everything: the encoder changed.
    pub(super) fn clear(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Which messages send their images, newest first, or none when all do.
fn share_images(messages: &[HostMessage], budget: usize) -> Option<Vec<Images>> {
    let sizes: Vec<usize> = messages.iter().map(|message| image_bytes(message)).collect();
    if sizes.iter().sum::<usize>() <= budget {
        return None;
    }
    let mut left = budget;
    let mut shared: Vec<Images> = sizes
        .iter()
        .rev()
        .map(|size| match left.checked_sub(*size) {
            Some(rest) => {
                left = rest;
                Images::Sent
            }
            None => {
                left = 0;
                Images::LeftOut
            }
        })
        .collect();
    shared.reverse();
    Some(shared)
}

fn image_bytes(message: &Message) -> usize {
    message
        .parts
        .iter()
        .map(|part| match part {
            Part::File { media_type, data, .. } if media_type.starts_with("image/") => data.len(),
            Part::File { .. }
            | Part::Text { .. }
            | Part::ToolCall(_)
            | Part::ToolResult(_)
            | Part::Reasoning { .. }
            | Part::ToolApprovalRequest { .. }
            | Part::ToolApprovalResponse { .. } => 0,
        })
        .sum()
}

struct Head<Q> {
    key: HeadKey<Q>,
    bytes: Arc<[u8]>,
}

/// What a request's head depends on, besides the model.
struct HeadKey<Q> {
    system: Arc<[String]>,
    tools: Arc<[WireTool]>,
    max_output_tokens: u64,
    temperature: Option<f64>,
    reasoning: Option<ReasoningEffort>,
    cache_key: Option<SessionId>,
    quirks: Q,
}

/// Everything of a request that stands before its messages, as it was last encoded.
pub(super) struct HeadCache<Q> {
    last: Mutex<Option<Head<Q>>>,
}

impl<Q> Default for HeadCache<Q> {
    fn default() -> Self {
        Self { last: Mutex::new(None) }
    }
}

impl<Q: Copy + PartialEq> HeadCache<Q> {
    /// The head of `request`, encoded where anything differs from the last one.
    pub(super) fn head(
        &self,
        request: &ModelRequest,
        quirks: Q,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Arc<[u8]> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Head { key, bytes }) = last.as_ref()
            && Arc::ptr_eq(&key.system, &request.system)
            && Arc::ptr_eq(&key.tools, &request.tools)
            && key.max_output_tokens == request.max_output_tokens
            && key.temperature == request.temperature
            && key.reasoning == request.reasoning
            && key.cache_key == request.cache_key
            && key.quirks == quirks
        {
            return Arc::clone(bytes);
        }
        let bytes: Arc<[u8]> = encode().into();
        let key = HeadKey {
            system: Arc::clone(&request.system),
            tools: Arc::clone(&request.tools),
            max_output_tokens: request.max_output_tokens,
            temperature: request.temperature,
            reasoning: request.reasoning,
            cache_key: request.cache_key.clone(),
            quirks,
        };
        *last = Some(Head { key, bytes: Arc::clone(&bytes) });
        bytes
    }
}

/// The media type and the base64 text of a data URL.
pub(super) fn data_url(data: &str) -> Option<(&str, &str)> {
    let (head, body) = data.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, body))
}

/// The sentence that stands for a file which is not sent, and why.
pub(super) fn file_sentence(file_name: Option<&str>, media_type: &str, why: &str) -> String {
    format!("[{} ({media_type}) is not shown: {why}]", file_name.unwrap_or("a file"))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gent_extension_api::protocol::{BranchId, MessageId, MessageKind, Millis, Role};

    use super::*;

    fn message(id: &str, parts: Vec<Part>) -> HostMessage {
        Arc::new(Message {
            kind: MessageKind::Regular,
            id: MessageId::parse(id).unwrap(),
            session_id: SessionId::parse("s").unwrap(),
            branch_id: BranchId::parse("b").unwrap(),
            role: Role::User,
            parts,
            created_at: Millis(0),
            turn_duration_ms: None,
            metadata: None,
        })
    }

    fn image(bytes: usize) -> Vec<Part> {
        vec![Part::File {
            media_type: "image/png".into(),
            data: "x".repeat(bytes),
            file_name: None,
            options: None,
        }]
    }

    #[test]
    fn a_request_encodes_only_what_was_not_in_the_last_one() {
        let cache = FragmentCache::default();
        let encoded = Cell::new(0);
        let encode = |message: &Message, _images| {
            encoded.set(encoded.get() + 1);
            Fragment { bytes: message.id.as_str().into(), ..Fragment::default() }
        };
        let joined = |messages: &[HostMessage]| {
            cache.assemble(messages, 0, encode, |fragments| {
                fragments.map(|f| String::from_utf8(f.bytes.clone()).unwrap()).collect::<String>()
            })
        };
        let mut messages = vec![message("a", vec![]), message("b", vec![])];
        assert_eq!((joined(&messages).as_str(), encoded.get()), ("ab", 2));
        messages.push(message("c", vec![]));
        assert_eq!((joined(&messages).as_str(), encoded.get()), ("abc", 3));
        messages[1] = message("B", vec![]);
        assert_eq!((joined(&messages).as_str(), encoded.get()), ("aBc", 4));
        messages.truncate(1);
        assert_eq!((joined(&messages).as_str(), encoded.get()), ("a", 4));
    }

    #[test]
    fn the_newest_images_fill_the_budget_of_a_request() {
        let messages = [message("a", image(40)), message("b", image(50)), message("c", image(50))];
        assert_eq!(share_images(&messages, 140), None);
        assert_eq!(share_images(&messages, 110), Some(vec![Images::LeftOut, Images::Sent, Images::Sent]));
        assert_eq!(share_images(&messages, 60), Some(vec![Images::LeftOut, Images::LeftOut, Images::Sent]));
    }
}
