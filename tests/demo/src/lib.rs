//! What the demo tells: each step as it ends, and all of it once more for a script.
//!
//! The demo itself is `examples/demo`; `cargo xtask demo` runs it.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::time::Instant;

use serde::Serialize;

/// A step and how it went.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// One word for scripts.
    pub name: &'static str,
    /// Whether it did what it should.
    pub ok: bool,
    /// How long it took, people's time included.
    pub ms: u64,
}

/// The steps so far, and the figures on the way.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Whether every step did what it should.
    pub ok: bool,
    /// How the extension reaches the hub: `native` or `web_socket`.
    pub transport: Option<String>,
    /// In their order.
    pub steps: Vec<Step>,
    /// Half of the calls of `evaluate_script("1")` took no longer.
    pub evaluate_p50_ms: Option<f64>,
    /// What the list of tools takes of an agent's context.
    pub tools_list_bytes: Option<usize>,
    /// What the hub takes of the machine's memory.
    pub hub_rss_mb: Option<f64>,
}

impl Report {
    /// Runs a step, and says how it went and how long it took.
    ///
    /// # Errors
    /// When the step fails.
    pub async fn step<T>(
        &mut self,
        name: &'static str,
        what: &str,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let start = Instant::now();
        let outcome = work.await;
        let (ok, ms) = (outcome.is_ok(), u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.steps.push(Step { name, ok, ms });
        say(format_args!("{} {:>7} ms  {what}", if ok { "✓" } else { "✗" }, ms));
        outcome
    }
}

/// Prints a line. Nobody may be reading any more.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The middle one, rounded to hundredths.
pub fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    let middle = times.get(times.len() / 2)?;
    Some((middle * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_finds_what_it_looks_for() {
        let mut report = Report::default();
        report.steps.push(Step { name: "start", ok: true, ms: 7 });
        report.tools_list_bytes = Some(9);
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(
            text,
            r#"{"ok":false,"transport":null,"steps":[{"name":"start","ok":true,"ms":7}],"evaluate_p50_ms":null,"tools_list_bytes":9,"hub_rss_mb":null}"#
        );
    }

    #[test]
    fn the_median_is_one_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.234_5, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
