//! Owns the clients of a run: what they do, and what breaks meanwhile, by the seed.

use std::time::Duration;

use gent_protocol::{EventSeq, InteractionRequestId};

use crate::calls::{Call, Calls, Outcome, What};
use crate::check::check_branch;
use crate::check_told::{check_questions, check_watcher};
use crate::later;
use crate::met::Met;
use crate::rng::Rng;
use crate::watch::Watcher;
use crate::world::World;

/// Writes that a fault may hit.
const WRITES: [&str; 19] = [
    "branch.open",
    "branch.admit",
    "branch.takeNext",
    "branch.cancel",
    "branch.receipt",
    "branch.park",
    "branch.putAside",
    "branch.answer",
    "branch.steer",
    "branch.drain",
    "question.ask",
    "turn.project",
    "turn.streamEnd",
    "turn.toolStart",
    "turn.toolEnd",
    "turn.messages",
    "turn.settle",
    "turn.delta",
    "turn.joinSteers",
];

/// How much may go wrong in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Nothing but the model and its tools.
    Fair,
    /// The engine is killed and stopped.
    Restarts,
    /// Also writes fail, and are not stored.
    Faults,
    /// Also writes are stored and nobody is told.
    Storm,
}

/// One run.
pub(crate) struct Run {
    pub(crate) weather: Weather,
    pub(crate) world: World,
    pub(crate) calls: Calls,
    pub(crate) watchers: Vec<Watcher>,
    rng: Rng,
    n_names: usize,
    /// Questions that a client has seen.
    questions: Vec<(usize, InteractionRequestId)>,
    /// Faults that were met.
    pub(crate) n_faults: usize,
    n_kills: usize,
    /// What happened, for whoever reads a failure.
    pub(crate) log: Vec<String>,
}

impl Run {
    pub(crate) async fn new(seed: u64, n_branches: usize) -> Self {
        let mut rng = Rng::new(seed, 0);
        let weather = *rng.one(&[Weather::Fair, Weather::Restarts, Weather::Faults, Weather::Storm]);
        let idle = Duration::from_secs(*rng.one(&[1, 60]));
        let world = World::new(seed, n_branches, idle).await;
        let (calls, watchers) = (Calls::default(), Vec::new());
        let mut run = Self {
            weather,
            world,
            calls,
            watchers,
            rng,
            n_names: 0,
            questions: Vec::new(),
            n_faults: 0,
            n_kills: 0,
            log: Vec::new(),
        };
        for branch in 0..n_branches {
            run.watch(branch, EventSeq(0));
        }
        run
    }

    /// Lets the clients act.
    pub(crate) async fn act(&mut self) {
        let n_acts = 30 + self.rng.below(30) + 6 * self.world.branches.len();
        for _ in 0..n_acts {
            let branch = self.rng.below(self.world.branches.len());
            self.one_act(branch).await;
            self.wait().await;
            self.see_question(branch);
        }
    }

    async fn wait(&mut self) {
        match self.rng.below(10) {
            0..2 => {}
            2..7 => {
                for _ in 0..self.rng.below(60) {
                    tokio::task::yield_now().await;
                }
            }
            7..9 => self.pass(300).await,
            _ => self.pass(9_000).await,
        }
    }

    async fn pass(&mut self, millis: usize) {
        later(Duration::from_millis(u64::try_from(self.rng.below(millis)).unwrap())).await;
    }

    fn see_question(&mut self, branch: usize) {
        if let Some(shown) = self.world.shown(branch)
            && !self.questions.iter().any(|(_, known)| *known == shown)
        {
            self.questions.push((branch, shown));
        }
    }

    async fn one_act(&mut self, branch: usize) {
        match self.rng.below(100) {
            0..26 => self.send(branch),
            26..38 => self.steer(branch),
            38..46 => self.stop(branch),
            46..50 => self.drain(branch),
            50..66 => self.answer(branch),
            66..76 => self.repeat(),
            76..84 => self.follow(branch),
            84..92 => {
                for _ in 0..=self.rng.below(3) {
                    self.fault();
                }
            }
            _ => self.restart().await,
        }
    }

    fn name(&mut self, of: &str) -> String {
        self.n_names += 1;
        format!("{of}-{}", self.n_names)
    }

    fn make(&mut self, branch: usize, what: What) {
        self.log.push(format!("branch {branch}: {what:?}"));
        drop(self.calls.make(&self.world, branch, what));
    }

    fn send(&mut self, branch: usize) {
        let say = self.name("say prompt");
        // The same id on two branches is two messages.
        let n_sent = self.calls.all().iter().filter(|call| call.branch == branch).count();
        let request = self.rng.percent(60).then(|| format!("send-{n_sent}"));
        self.make(branch, What::Send { request, say });
    }

    fn steer(&mut self, branch: usize) {
        let (say, request) = (self.name("say steer"), self.name("steer"));
        let wake = self.rng.percent(50);
        self.make(branch, What::Steer { request, say, wake });
    }

    fn stop(&mut self, branch: usize) {
        let request = self.name("stop");
        let of_branch = |call: &&Call| call.branch == branch;
        let named: Vec<String> = self
            .calls
            .all()
            .iter()
            .filter(of_branch)
            .filter_map(Call::message)
            .map(|id| id.to_string())
            .collect();
        let recent = &named[named.len().saturating_sub(4)..];
        let message = (!recent.is_empty() && self.rng.percent(60)).then(|| self.rng.one(recent).clone());
        self.make(branch, What::Stop { request, message });
    }

    fn drain(&mut self, branch: usize) {
        let request = self.name("drain");
        self.make(branch, What::Drain { request });
    }

    fn answer(&mut self, branch: usize) {
        let shown = self.world.shown(branch);
        let question = match shown {
            Some(shown) if self.rng.percent(75) => shown,
            _ => {
                // A late one, perhaps of another branch.
                if self.questions.is_empty() {
                    return;
                }
                let (of, question) = self.rng.one(&self.questions).clone();
                let branch = if self.rng.percent(80) { of } else { branch };
                let (approved, notes) = (self.rng.percent(50), self.name("answer"));
                return self.make(branch, What::Answer { question, approved, notes });
            }
        };
        let (approved, notes) = (self.rng.percent(70), self.name("answer"));
        self.make(branch, What::Answer { question, approved, notes });
    }

    /// A client that has not heard, or does not trust what it heard, asks again.
    fn repeat(&mut self) {
        let all = self.calls.all();
        if all.is_empty() {
            return;
        }
        let recent = &all[all.len().saturating_sub(12)..];
        let of = if self.rng.percent(70) { recent } else { &all };
        let call = self.rng.one(of).clone();
        if !matches!(call.what, What::Send { request: None, .. }) {
            self.make(call.branch, call.what);
        }
    }

    fn follow(&mut self, branch: usize) {
        if self.rng.percent(30) && !self.watchers.is_empty() {
            let place = self.rng.below(self.watchers.len());
            self.watchers[place].disconnect();
            return;
        }
        let newest = self.world.last(branch).unwrap_or_default();
        let after = EventSeq(i64::try_from(self.rng.below(usize::try_from(newest.0).unwrap() + 1)).unwrap());
        self.watch(branch, after);
    }

    fn watch(&mut self, branch: usize, after: EventSeq) {
        self.watchers.push(Watcher::new(&self.world, branch, after));
    }

    fn fault(&mut self) {
        let points: &[&str] = match self.weather {
            Weather::Fair | Weather::Restarts => return,
            Weather::Faults => &["store.in_write", "store.before_commit"],
            Weather::Storm => {
                &["store.in_write", "store.before_commit", "store.after_commit", "store.after_commit"]
            }
        };
        let (point, write, nth) = (*self.rng.one(points), *self.rng.one(&WRITES), 1 + self.rng.below(3));
        let fault = format!("{point}:{write}@{nth}=error");
        self.log.push(fault.clone());
        gent_storage::failpoint::arm_here(&fault).unwrap();
    }

    async fn restart(&mut self) {
        if self.weather == Weather::Fair {
            return;
        }
        let (kills, resumes) = (self.rng.percent(60), self.rng.percent(70));
        let drains = !kills && self.rng.percent(50);
        self.log.push(format!("restart: kills {kills}, drains {drains}, resumes {resumes}"));
        if drains {
            self.world.engine.drain(Duration::from_secs(10)).await;
        }
        self.start_again(kills, resumes).await;
    }

    pub(crate) async fn start_again(&mut self, kills: bool, resumes: bool) {
        // Connections end with their server; what their calls came to is not known to anybody.
        for watcher in &self.watchers {
            watcher.disconnect();
        }
        self.n_kills += usize::from(kills);
        self.world.restart(kills).await;
        if resumes {
            self.world.engine.resume(true);
        }
        for branch in 0..self.world.branches.len() {
            self.watch(branch, EventSeq(0));
        }
    }

    /// Answers the question that a branch shows.
    pub(crate) fn answer_shown(&mut self, branch: usize) {
        if let Some(question) = self.world.shown(branch) {
            let notes = self.name("answer");
            self.make(branch, What::Answer { question, approved: true, notes });
        }
    }

    /// The next prompt of a branch.
    pub(crate) async fn prompt(&mut self, branch: usize) -> (String, Outcome) {
        let (request, say) = (self.name("last"), self.name("say prompt"));
        let what = What::Send { request: Some(request.clone()), say };
        (request, self.calls.made(&self.world, branch, what).await)
    }
}

impl Run {
    /// Checks everything that must hold at rest, and counts what the run met.
    pub(crate) fn check(&self) -> Met {
        let mut met = Met::default();
        met.add("faults", self.n_faults);
        met.add("kills", self.n_kills);
        assert_eq!(self.world.script.complaints(), Vec::<String>::new(), "what the model was asked");
        let all = self.calls.all();
        for number in 0..self.world.branches.len() {
            let rows = self.world.rows(number);
            check_branch(self, number, &rows, &all);
            check_questions(self, number, &rows, &all);
            met.count(&rows);
            for watcher in self.watchers.iter().filter(|watcher| watcher.branch == number) {
                check_watcher(&rows, watcher);
            }
        }
        for call in &all {
            met.outcome(call);
        }
        met
    }

    /// What happened, for whoever reads a failure.
    pub(crate) fn tell(&self) -> Vec<String> {
        let mut told: Vec<String> = self.calls.all().iter().map(|call| format!("{call:?}")).collect();
        for branch in 0..self.world.branches.len() {
            let rows = self.world.rows(branch);
            told.push(format!("branch {branch}: turn {:?}, queue {:?}", rows.turn, rows.queue));
            told.extend(rows.events().map(|envelope| {
                let text = format!("{} {:?}", envelope.id, envelope.event);
                text.chars().take(600).collect()
            }));
        }
        told
    }
}
