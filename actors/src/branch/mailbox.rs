//! Owns how an order that arrives is filed: in its lane, with its permit, and a way to answer. No work is done here.
//! Tested end to end.

use actix::{Context, Handler, ResponseFuture};

use super::actor::BranchActor;
use super::lanes::Command;
use super::messages::{
    Answer, BranchError, Close, CredentialOffered, Dequeue, DrainAll, Interject, Stop, Submit,
};

impl Handler<Submit> for BranchActor {
    type Result = ResponseFuture<Result<(), BranchError>>;

    fn handle(&mut self, order: Submit, ctx: &mut Context<Self>) -> Self::Result {
        let Submit { submission, waits, permit } = order;
        let submission = Box::new(submission);
        self.file(ctx, permit, |reply| Command::Submit { submission, waits, reply })
    }
}

impl Handler<Stop> for BranchActor {
    type Result = ResponseFuture<Result<bool, BranchError>>;

    fn handle(&mut self, order: Stop, ctx: &mut Context<Self>) -> Self::Result {
        let Stop { order, permit } = order;
        let order = Box::new(order);
        self.file(ctx, permit, |reply| Command::Stop { order, reply })
    }
}

impl Handler<Interject> for BranchActor {
    type Result = ResponseFuture<Result<(), BranchError>>;

    fn handle(&mut self, order: Interject, ctx: &mut Context<Self>) -> Self::Result {
        let interjection = Box::new(order.interjection);
        self.file(ctx, order.permit, |reply| Command::Interject { interjection, reply })
    }
}

impl Handler<Answer> for BranchActor {
    type Result = ResponseFuture<Result<(), BranchError>>;

    fn handle(&mut self, order: Answer, ctx: &mut Context<Self>) -> Self::Result {
        let Answer { question, decision, permit } = order;
        let answer = Box::new((question, decision));
        self.file(ctx, permit, |reply| Command::Answer { answer, reply })
    }
}

impl Handler<Dequeue> for BranchActor {
    type Result = ResponseFuture<Result<bool, BranchError>>;

    fn handle(&mut self, order: Dequeue, ctx: &mut Context<Self>) -> Self::Result {
        let Dequeue { message, permit } = order;
        self.file(ctx, permit, |reply| Command::Dequeue { message, reply })
    }
}

impl Handler<DrainAll> for BranchActor {
    type Result = ResponseFuture<Result<gent_protocol::QueueSnapshot, BranchError>>;

    fn handle(&mut self, order: DrainAll, ctx: &mut Context<Self>) -> Self::Result {
        let DrainAll { request, permit } = order;
        self.file(ctx, permit, |reply| Command::DrainAll { request, reply })
    }
}

impl Handler<CredentialOffered> for BranchActor {
    type Result = ResponseFuture<Result<(), BranchError>>;

    fn handle(&mut self, order: CredentialOffered, ctx: &mut Context<Self>) -> Self::Result {
        self.file(ctx, order.permit, |reply| Command::CredentialOffered { reply })
    }
}

impl Handler<Close> for BranchActor {
    type Result = ();

    fn handle(&mut self, _: Close, ctx: &mut Context<Self>) {
        self.leave(ctx, || BranchError::Moved);
    }
}
