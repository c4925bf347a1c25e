//! Owns the crash tests: the server is killed at once in five phases, each chosen by an event or a failpoint and never
//! by time, and started again on the same data. `GENT_CRASH_ROUNDS` sets how often each phase is run (2 unless set; 8
//! for the full bar). Rounds differ in whether a client is attached at the kill and whether the model demands a key.

#[cfg(test)]
mod tests {
    use anyhow::{Context as _, Result, ensure};
    use gent_e2e::harness::{
        Gent, OpenSession, Pipe, Sent, Setup, Stop, eventually, processes_with_env_marker,
    };
    use gent_e2e::scripted::{Script, Scripted, ScriptedServer};

    /// Writes of a turn, in the order in which they come.
    const WRITES: [&str; 4] = ["turn.project@2", "turn.streamEnd", "turn.toolEnd", "branch.receipt"];

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Phase {
        MidStream,
        InTool,
        InWrite,
        BetweenWrites,
        Idle,
    }

    #[derive(Debug, Clone, Copy)]
    struct Round {
        phase: Phase,
        number: usize,
        has_client: bool,
        has_key: bool,
    }

    fn rounds(phase: Phase) -> impl Iterator<Item = Round> {
        let wanted = std::env::var_os("GENT_CRASH_ROUNDS").and_then(|text| text.to_str()?.parse().ok());
        (0..wanted.unwrap_or(2)).map(move |number| Round {
            phase,
            number,
            has_client: phase == Phase::Idle || number % 2 == 0,
            has_key: (number + number / 2) % 2 == 1,
        })
    }

    impl Round {
        /// What is left of the turn needs the model: not where only its receipt is missing.
        fn asks_again(self) -> bool {
            let is_write = matches!(self.phase, Phase::InWrite | Phase::BetweenWrites);
            self.phase != Phase::Idle && !(is_write && WRITES[self.number % WRITES.len()] == "branch.receipt")
        }

        fn failpoint(self) -> Option<String> {
            let write = WRITES[self.number % WRITES.len()];
            match self.phase {
                Phase::InWrite if self.number % 3 == 1 => Some(format!("store.before_commit:{write}")),
                Phase::InWrite => Some(format!("store.in_write:{write}")),
                Phase::BetweenWrites => Some(format!("store.after_commit:{write}")),
                Phase::MidStream | Phase::InTool | Phase::Idle => None,
            }
        }

        fn prompt(self, running: &Pipe) -> String {
            let path = running.path().display();
            match self.phase {
                Phase::MidStream => "TOOLS:2 CMD:echo_%_>>_ran HOLD:hold".to_owned(),
                Phase::InTool => {
                    format!("TOOLS:2 CMD:echo_%_>>_ran;_[_%_=_2_]_||_{{_:_>_{path};_exec_sleep_600;_}}")
                }
                Phase::InWrite | Phase::BetweenWrites | Phase::Idle => "TOOLS:2 CMD:echo_%_>>_ran".to_owned(),
            }
        }
    }

    async fn no_child_is_left(gent: &Gent) -> Result<()> {
        let marker = gent.setup().marker();
        eventually("the tools' processes to end", async || {
            let left = processes_with_env_marker(&marker)?;
            Ok(left.iter().all(|pid| *pid == gent.pid).then_some(()))
        })
        .await
    }

    /// Brings the turn to the place where the round kills.
    async fn reach(
        round: Round,
        model: &ScriptedServer,
        stop: Option<&Stop>,
        running: &Pipe,
        session: &OpenSession,
        sent: &Sent,
    ) -> Result<()> {
        match (round.phase, stop) {
            (Phase::MidStream, _) => model.gate("hold").reached(1).await,
            (Phase::InTool, _) => running.opened().await,
            (Phase::InWrite | Phase::BetweenWrites, Some(stop)) => stop.reached().await,
            (Phase::InWrite | Phase::BetweenWrites, None) => anyhow::bail!("no failpoint"),
            (Phase::Idle, _) => session.turn(&sent.message).await.map(|_| ()),
        }
    }

    /// The server has gone on by itself, or visibly waits for the key, before any client comes back.
    async fn went_on_alone(round: Round, gent: &Gent, model: &ScriptedServer, asked: usize) -> Result<()> {
        if !round.asks_again() || round.has_client {
            return Ok(());
        }
        if !round.has_key {
            model.request(asked + 1).await?;
            return Ok(());
        }
        eventually("the turn to wait for its key", async || {
            let rows = gent.actors().await?;
            Ok(rows.iter().any(|row| row.waiting_for.as_deref() == Some("credential")).then_some(()))
        })
        .await
    }

    async fn run(round: Round) -> Result<()> {
        let mut model = Scripted::new(Script::new());
        if round.has_key {
            model = model.demanding_key("sk-crash");
        }
        let model = model.start().await?;
        let setup = Setup::new(&model)?;
        let running = Pipe::new(setup.at(), "running")?;
        let stop = round.failpoint().map(|failpoint| Stop::at(setup.at(), &failpoint)).transpose()?;
        let setup = stop.iter().fold(setup, Setup::stop);
        let mut gent = setup.start().await?;
        let session = gent.session().await?;
        let sent = session.send(&round.prompt(&running))?;
        reach(round, &model, stop.as_ref(), &running, &session, &sent).await?;
        let before = session.events.lasting();
        let (id, branch, message) = (session.id.clone(), session.branch.clone(), sent.message.clone());
        let attached = if round.has_client {
            Some((session, sent))
        } else {
            sent.abandon().await;
            drop(session);
            eventually("the client to be gone", async || {
                // The question itself is the one connection left.
                Ok((gent.status().await?.connections <= 1).then_some(()))
            })
            .await?;
            None
        };
        let asked = model.requests().len();
        gent.kill9().await?;
        drop(attached);
        model.gate("hold").open();

        let gent = gent.setup().clone().without_failpoints().start().await?;
        no_child_is_left(&gent).await?;
        went_on_alone(round, &gent, &model, asked).await?;
        let session = OpenSession::attach(gent.client().await?, id, branch).await?;
        let turn = session.turn(&message).await?;
        turn.expect_end("SE3(Answered) MR(a3) TC")?;
        let after = session.events.lasting();
        let lost: Vec<_> = before.iter().filter(|envelope| !after.contains(envelope)).collect();
        ensure!(lost.is_empty(), "lost: {lost:?}");
        ensure!(session.receipts(&message) == 1, "{} receipts", session.receipts(&message));
        // Each call appends its own number once; one that had not begun at the kill is reported and does not run.
        let ran = gent.place().read("ran");
        ensure!(["1\n2\n", "2\n"].contains(&ran.as_str()), "tools ran: {ran:?}");
        let next = session.ask("TEXT:2").await?;
        ensure!(next.answer() == "ticktick" && session.receipts(&message) == 1, "{}", next.trace());
        no_child_is_left(&gent).await
    }

    async fn run_all(phase: Phase) -> Result<()> {
        for round in rounds(phase) {
            run(round).await.with_context(|| format!("{round:?}"))?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_kill_in_the_middle_of_an_answer_loses_nothing_that_was_told() -> Result<()> {
        run_all(Phase::MidStream).await
    }

    #[tokio::test]
    async fn a_kill_while_a_tool_runs_reports_the_call_and_runs_it_no_second_time() -> Result<()> {
        run_all(Phase::InTool).await
    }

    #[tokio::test]
    async fn a_kill_inside_a_write_leaves_all_of_it_or_nothing() -> Result<()> {
        run_all(Phase::InWrite).await
    }

    #[tokio::test]
    async fn a_kill_between_two_writes_goes_on_from_the_first() -> Result<()> {
        run_all(Phase::BetweenWrites).await
    }

    #[tokio::test]
    async fn a_kill_of_an_idle_server_with_a_client_costs_nothing() -> Result<()> {
        run_all(Phase::Idle).await
    }
}
