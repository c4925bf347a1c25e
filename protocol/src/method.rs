//! Owns the method table: name, parameters, result, whether it changes anything, whether it streams.
//! A method that is not here does not exist. Tested against `docs/PROTOCOL.md` by the tidy test.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    ActorRow, Branch, CreateSession, CreatedSession, DeleteSession, Done, DrainQueue, EventEnvelope,
    GetActor, GetQueue, GetSession, GetSnapshot, Hello, HelloReply, ListActors, ListBranches, ListMessages,
    ListModels, ListSessions, Message, Model, OfferCredentials, OfferedCredentials, Page, QueueSnapshot,
    RespondInteraction, Retire, Retired, SendMessage, ServerStatus, Session, SessionEvents, SessionSnapshot,
    Status, SteerParams, UpdateSettings, UpdatedSettings,
};

/// A call with one answer. The parameter type names its method.
pub trait Call: Serialize + DeserializeOwned + Send + 'static {
    /// The method.
    const METHOD: Method;
    /// What it answers.
    type Reply: Serialize + DeserializeOwned + Send + 'static;
}

/// A call that opens a stream.
pub trait StreamCall: Serialize + DeserializeOwned + Send + 'static {
    /// The method.
    const METHOD: Method;
    /// What the stream carries.
    type Item: Serialize + DeserializeOwned + Send + 'static;
}

/// What is true of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodFacts {
    /// Its name on the wire.
    pub name: &'static str,
    /// The name of its parameter type.
    pub params: &'static str,
    /// The name of its result or item type.
    pub result: &'static str,
    /// It changes something.
    pub mutates: bool,
    /// It answers with a stream.
    pub streams: bool,
    /// It needs `meta.workspace`.
    pub workspace: bool,
}

macro_rules! yes {
    (yes) => {
        true
    };
    (no) => {
        false
    };
}

macro_rules! methods {
    (
        calls { $($variant:ident = $name:literal, $params:ty => $reply:ty, mutates $mutates:ident, workspace $workspace:ident;)* }
        streams { $($svariant:ident = $sname:literal, $sparams:ty => $item:ty, workspace $sworkspace:ident;)* }
    ) => {
        /// A method of the socket.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
            $(
                #[doc = concat!("`", $sname, "`, a stream")]
                $svariant,
            )*
        }

        impl Method {
            /// Every method, in the order of the documented table.
            pub const ALL: &'static [Method] = &[$(Method::$variant,)* $(Method::$svariant,)*];

            /// The method of this name.
            pub fn parse(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    $($sname => Some(Self::$svariant),)*
                    _ => None,
                }
            }

            /// What is true of it.
            pub fn facts(self) -> MethodFacts {
                match self {
                    $(Self::$variant => MethodFacts {
                        name: $name, params: stringify!($params), result: stringify!($reply),
                        mutates: yes!($mutates), streams: false, workspace: yes!($workspace),
                    },)*
                    $(Self::$svariant => MethodFacts {
                        name: $sname, params: stringify!($sparams), result: stringify!($item),
                        mutates: false, streams: true, workspace: yes!($sworkspace),
                    },)*
                }
            }

            /// Its name on the wire.
            pub fn name(self) -> &'static str {
                self.facts().name
            }
        }

        $(impl Call for $params {
            const METHOD: Method = Method::$variant;
            type Reply = $reply;
        })*
        $(impl StreamCall for $sparams {
            const METHOD: Method = Method::$svariant;
            type Item = $item;
        })*
    };
}

methods! {
    calls {
        ServerHello = "server.hello", Hello => HelloReply, mutates no, workspace no;
        ServerStatus = "server.status", Status => ServerStatus, mutates no, workspace no;
        ServerRetire = "server.retire", Retire => Retired, mutates yes, workspace no;
        AuthOffer = "auth.offer", OfferCredentials => OfferedCredentials, mutates yes, workspace yes;
        SessionCreate = "session.create", CreateSession => CreatedSession, mutates yes, workspace yes;
        SessionList = "session.list", ListSessions => Page<Session>, mutates no, workspace yes;
        SessionGet = "session.get", GetSession => Option<Session>, mutates no, workspace yes;
        SessionUpdateSettings = "session.updateSettings", UpdateSettings => UpdatedSettings, mutates yes, workspace yes;
        SessionGetSnapshot = "session.getSnapshot", GetSnapshot => SessionSnapshot, mutates no, workspace yes;
        SessionDelete = "session.delete", DeleteSession => Done, mutates yes, workspace yes;
        BranchList = "branch.list", ListBranches => Page<Branch>, mutates no, workspace yes;
        MessageSend = "message.send", SendMessage => Done, mutates yes, workspace yes;
        MessageList = "message.list", ListMessages => Page<Message>, mutates no, workspace yes;
        SteerCommand = "steer.command", SteerParams => Done, mutates yes, workspace yes;
        QueueGet = "queue.get", GetQueue => QueueSnapshot, mutates no, workspace yes;
        QueueDrain = "queue.drain", DrainQueue => QueueSnapshot, mutates yes, workspace yes;
        InteractionRespond = "interaction.respond", RespondInteraction => Done, mutates yes, workspace yes;
        ModelList = "model.list", ListModels => Page<Model>, mutates no, workspace no;
        ActorList = "actor.list", ListActors => Page<ActorRow>, mutates no, workspace no;
        ActorGet = "actor.get", GetActor => ActorRow, mutates no, workspace no;
    }
    streams {
        SessionEvents = "session.events", SessionEvents => EventEnvelope, workspace yes;
    }
}
