//! Owns how a run answers the questions that stand in its way: a person at the terminal does, and where nobody is there
//! the answer is no, at once and with the reason. Tested in `tui/tests/it/questions.rs`.

use gent_client::CallError;
use gent_protocol::{AgentEvent, InteractionRequestId, OpenQuestion, Question};

use crate::asking::Taken;
use crate::course::Course;
use crate::jobs::Jobs;
use crate::keyboard::Typed;
use crate::lines::Line;
use crate::output::Output;
use crate::request::OutputFormat;
use crate::run::Runner;
use crate::stopping::Leave;

impl<O: Output> Runner<'_, O> {
    /// Hears of questions on the branch of the run; also of an earlier turn's, behind which its prompt waits.
    pub(crate) async fn hear_question(
        &mut self,
        event: &AgentEvent,
        course: &mut Course,
    ) -> Result<(), Leave> {
        if event.branch_id() != Some(&course.send.branch_id) {
            return Ok(());
        }
        if let AgentEvent::InteractionPresented { request_id, text, metadata, .. } = event {
            let question = Question { text: text.clone(), metadata: metadata.clone() };
            let open = OpenQuestion { request_id: request_id.clone(), question };
            self.present(&open, course).await?;
        } else if let AgentEvent::InteractionResolved { request_id, .. } = event
            && course.asking.resolve(request_id)
            && !self.keyboard.is_ended()
        {
            self.lines.push(Line::Notice("the question was answered or closed elsewhere".to_owned()));
        } else if let AgentEvent::TurnCompleted { .. } = event {
            course.asking.end();
        }
        Ok(())
    }

    /// Asks a question, or answers it for nobody.
    pub(crate) async fn present(&mut self, open: &OpenQuestion, course: &mut Course) -> Result<(), Leave> {
        let Some(text) = course.asking.present(open) else { return Ok(()) };
        if self.keyboard.is_ended() {
            self.answer_for_nobody(course);
            return Ok(());
        }
        self.show_question(&text, course).await
    }

    /// Takes what was typed while a question is open.
    pub(crate) async fn take_typed(&mut self, typed: Typed, course: &mut Course) -> Result<(), Leave> {
        match typed {
            Typed::Line(line) => match course.asking.take(&line).await {
                Some(Taken::Say(text)) => self.show_question(&text, course).await?,
                Some(Taken::Answer(_)) => send_answer(&mut self.jobs, course),
                None => {}
            },
            Typed::Unusable(why) => self.show_question(&format!("  {why}\n"), course).await?,
            // Whoever closes the keyboard will answer nothing more.
            Typed::End => self.answer_for_nobody(course),
        }
        Ok(())
    }

    /// Hears what became of an answer.
    pub(crate) async fn take_answered(
        &mut self,
        request_id: &InteractionRequestId,
        error: Option<CallError>,
        course: &mut Course,
    ) -> Result<(), Leave> {
        let Some(error) = error else {
            course.asking.confirm(request_id);
            return Ok(());
        };
        // It goes out again with the next connection.
        if error.is_closed() {
            return Ok(());
        }
        let said = course.asking.reject(request_id, &error);
        let text = course.asking.text();
        if self.keyboard.is_ended() && text.is_some() {
            return Err(Leave::Failed(crate::open::call_error(&error)));
        }
        self.lines.push(Line::Notice(said));
        match text {
            Some(text) => self.show_question(&text, course).await,
            None => Ok(()),
        }
    }

    fn answer_for_nobody(&mut self, course: &mut Course) {
        if let Some(summary) = course.asking.refuse() {
            if self.request.format == OutputFormat::Text {
                self.lines.push(Line::Notice(format!("answered no, as nobody can be asked here: {summary}")));
            }
            send_answer(&mut self.jobs, course);
        }
    }

    /// Shows lines of a question. Whoever has to answer does not wait for the end of a line.
    async fn show_question(&mut self, text: &str, course: &mut Course) -> Result<(), Leave> {
        self.end_answer_line(course).await?;
        self.flush_lines(Some(&course.turn)).await;
        for line in text.lines() {
            self.output.note(line).await;
        }
        Ok(())
    }
}

/// Sends the answer that is not confirmed, if there is one.
pub(crate) fn send_answer(jobs: &mut Jobs, course: &Course) {
    if let (Some(client), Some(answer)) = (&course.client, course.asking.unconfirmed()) {
        jobs.respond(client.clone(), answer.clone());
    }
}
