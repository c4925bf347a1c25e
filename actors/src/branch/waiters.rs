//! Owns the callers of `message.send` that wait for a turn to end. Memory only: whoever loses its waiter sends
//! again under the same id. Tested below.

use std::collections::HashMap;

use gent_protocol::MessageId;

use super::lanes::Reply;
use super::messages::BranchError;

/// Who waits for which message's turn.
#[derive(Default)]
pub(crate) struct Waiters(HashMap<MessageId, Vec<Reply>>);

impl Waiters {
    /// Those that still wait; callers that have gone are forgotten.
    pub(crate) fn count(&mut self) -> usize {
        self.0.retain(|_, replies| {
            replies.retain(|reply| !reply.is_closed());
            !replies.is_empty()
        });
        self.0.values().map(Vec::len).sum()
    }

    pub(crate) fn add(&mut self, message: &MessageId, reply: Reply) {
        self.0.entry(message.clone()).or_default().push(reply);
    }

    /// The turn of this message has ended.
    pub(crate) fn release(&mut self, message: &MessageId, failure: Option<&str>) {
        for reply in self.0.remove(message).unwrap_or_default() {
            let result = failure.map_or(Ok(()), |text| Err(BranchError::Turn(text.to_owned())));
            drop(reply.send(result));
        }
    }

    /// The activation leaves: everybody looks for the next one.
    pub(crate) fn release_all(&mut self, why: impl Fn() -> BranchError) {
        for reply in std::mem::take(&mut self.0).into_values().flatten() {
            drop(reply.send(Err(why())));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_caller_that_has_gone_is_not_counted_and_a_release_reaches_its_own_message_only() {
        let (one, two) = (MessageId::parse("1").unwrap(), MessageId::parse("2").unwrap());
        let mut waiters = Waiters::default();
        let (first, mut hears_first) = oneshot::channel();
        let (second, mut hears_second) = oneshot::channel();
        let (gone, hears_gone) = oneshot::channel();
        waiters.add(&one, first);
        waiters.add(&two, second);
        waiters.add(&two, gone);
        drop(hears_gone);
        assert_eq!(waiters.count(), 2);
        waiters.release(&one, None);
        assert!(hears_first.try_recv().unwrap().is_ok());
        assert!(hears_second.try_recv().is_err());
        waiters.release(&two, Some("broke"));
        assert!(matches!(hears_second.try_recv().unwrap(), Err(BranchError::Turn(text)) if text == "broke"));
    }
}
