//! Owns what is made of many figures: median, 95th and 99th percentile.

use std::time::Duration;

use serde_json::{Value, json};

/// A set of figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures(Vec<f64>);

/// A duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

impl FromIterator<f64> for Figures {
    fn from_iter<I: IntoIterator<Item = f64>>(figures: I) -> Self {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        Self(figures)
    }
}

impl Figures {
    /// The figure below which `percent` of all lie; 0 when there are none.
    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let place = (self.0.len() * percent).div_ceil(100).saturating_sub(1).min(last);
        self.0.get(place).copied().unwrap_or(0.0)
    }

    pub(crate) fn median(&self) -> f64 {
        self.percentile(50)
    }

    /// The figures as JSON, rounded to three places.
    pub(crate) fn json(&self) -> Value {
        let round = |figure: f64| (figure * 1e3).round() / 1e3;
        json!({
            "count": self.0.len(),
            "median": round(self.median()),
            "p95": round(self.percentile(95)),
            "p99": round(self.percentile(99)),
            "min": round(self.0.first().copied().unwrap_or(0.0)),
            "max": round(self.0.last().copied().unwrap_or(0.0)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Figures;

    #[test]
    fn percentiles_are_figures_that_were_taken() {
        let figures: Figures = (1..=100).map(f64::from).collect();
        assert_eq!((figures.median(), figures.percentile(95), figures.percentile(99)), (50.0, 95.0, 99.0));
        assert_eq!(Figures::default().median(), 0.0);
        assert_eq!([7.0].into_iter().collect::<Figures>().percentile(99), 7.0);
    }
}
