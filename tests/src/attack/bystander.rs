//! Owns the bystander: a well-behaved client whose turns must not suffer.

use std::time::Instant;

use anyhow::Result;

use crate::bench::{Figures, milliseconds};
use crate::harness::{Gent, OpenSession};

/// Turns that one figure is made of.
const TURNS: usize = 20;

pub(crate) struct Bystander {
    session: OpenSession,
    file: String,
}

impl Bystander {
    pub(crate) async fn new(gent: &Gent) -> Result<Self> {
        let path = gent.place().write("bystander.txt", &"a line of text\n".repeat(100))?;
        let bystander = Self { session: gent.session().await?, file: format!("FILE:{}", path.display()) };
        bystander.turn().await?;
        Ok(bystander)
    }

    async fn turn(&self) -> Result<f64> {
        #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
        let begin = Instant::now();
        self.session.ask(&format!("TOOLS:20 {} ID:bystander", self.file)).await?;
        Ok(milliseconds(begin.elapsed()))
    }

    /// The 95th percentile of the time that a `TOOLS:20` takes.
    pub(crate) async fn p95(&self) -> Result<f64> {
        let mut times = Vec::with_capacity(TURNS);
        for _ in 0..TURNS {
            times.push(self.turn().await?);
        }
        Ok(times.into_iter().collect::<Figures>().percentile(95))
    }
}
