//! Owns how a frame of the server is read and handed to whoever waits for it.
//! Parameters stay text: an envelope is decoded once, by its reader, and can be shown as it came.
//! Never writes to the socket. Tested in `protocol/client/tests/it`.

use std::borrow::Cow;

use gent_protocol::{ErrorObject, RpcError, StreamEnd, SubscriptionId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::CallError;
use crate::outbox::{Outbox, StreamPart, Waiter};

#[derive(Deserialize)]
struct Frame<'a> {
    id: Option<i64>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ErrorObject>,
}

#[derive(Deserialize)]
struct Items {
    subscription: SubscriptionId,
    items: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Opened {
    subscription: SubscriptionId,
}

/// A frame that is not of this protocol.
#[derive(Debug)]
pub(crate) struct Garbage;

/// Hands one frame on. Waits when the reader of its stream is behind: that is the stream's backpressure.
pub(crate) async fn deliver(outbox: &Outbox, text: &str) -> Result<(), Garbage> {
    let frame: Frame<'_> = serde_json::from_str(text).map_err(|_unfit| Garbage)?;
    if let Some(method) = frame.method {
        let params = frame.params.ok_or(Garbage)?;
        return match method.as_ref() {
            "stream.item" => {
                let Items { subscription, items } =
                    serde_json::from_str(params.get()).map_err(|_unfit| Garbage)?;
                if let Some(stream) = outbox.stream(&subscription) {
                    // A dropped reader has unsubscribed already; its last batch is nobody's.
                    let _gone = stream.send(StreamPart::Items(items)).await;
                }
                Ok(())
            }
            "stream.end" => {
                let end: StreamEnd = serde_json::from_str(params.get()).map_err(|_unfit| Garbage)?;
                if let Some(stream) = outbox.close_stream(&end.subscription) {
                    let _gone = stream.send(StreamPart::End(end)).await;
                }
                Ok(())
            }
            // A newer server of this major version may tell more than this build knows.
            _ => Ok(()),
        };
    }
    let outcome = match (frame.error, frame.result) {
        (Some(error), _) => Err(error),
        (None, Some(result)) => Ok(result),
        // `"result": null` is read as none: it is the answer of a call that found nothing.
        (None, None) => Ok(RawValue::NULL),
    };
    let Some(id) = frame.id else {
        // The server could not even read the id of something this side sent.
        return Err(Garbage);
    };
    answer(outbox, id, outcome)
}

fn answer(outbox: &Outbox, id: i64, outcome: Result<&RawValue, ErrorObject>) -> Result<(), Garbage> {
    // An answer to a call that was given up is nobody's.
    let Some(waiter) = outbox.take(id) else { return Ok(()) };
    let outcome = outcome.map_err(|error| match RpcError::from_object(&error) {
        Ok(known) => CallError::Rpc(known),
        Err(unknown) => CallError::UnknownRpc(unknown),
    });
    match waiter {
        Waiter::Answer { reply } => {
            let _gone = reply.send(outcome.map(ToOwned::to_owned));
        }
        Waiter::Stream { reply, items } => {
            let opened = match outcome {
                Ok(result) => {
                    let Opened { subscription } =
                        serde_json::from_str(result.get()).map_err(|_unfit| Garbage)?;
                    outbox.open(subscription.clone(), items);
                    Ok(subscription)
                }
                Err(error) => Err(error),
            };
            if let Err(Ok(unwanted)) = reply.send(opened) {
                outbox.unsubscribe(&unwanted);
            }
        }
        Waiter::Abandoned => {
            if let Ok(result) = outcome {
                let Opened { subscription } = serde_json::from_str(result.get()).map_err(|_unfit| Garbage)?;
                outbox.refuse(&subscription);
            }
        }
    }
    Ok(())
}
