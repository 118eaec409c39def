//! Goals, and how what was measured compares with them.
//!
//! The benches themselves are in `examples`; `cargo xtask bench` runs them.

use std::fmt::Display;
use std::io::{self, Write as _};

use serde::Serialize;

/// A figure that was promised.
#[derive(Debug, Clone, Serialize)]
pub struct Goal {
    /// One word for scripts.
    pub name: String,
    /// What was measured; none if it could not be.
    pub value: Option<f64>,
    /// What was promised; none if that depends on something that could not be measured.
    pub limit: Option<f64>,
    /// Such as `ms`.
    pub unit: &'static str,
    /// Whether the promise holds.
    pub met: bool,
    /// Whether the value should not be under the limit, rather than not over it.
    #[serde(skip)]
    at_least: bool,
}

impl Goal {
    /// One that may not be over its limit.
    pub fn at_most(
        name: impl Into<String>,
        value: Option<f64>,
        limit: impl Into<Option<f64>>,
        unit: &'static str,
    ) -> Self {
        Self::new(name.into(), value, limit.into(), unit, false)
    }

    /// One that may not be under its limit.
    pub fn at_least(
        name: impl Into<String>,
        value: Option<f64>,
        limit: impl Into<Option<f64>>,
        unit: &'static str,
    ) -> Self {
        Self::new(name.into(), value, limit.into(), unit, true)
    }

    fn new(name: String, value: Option<f64>, limit: Option<f64>, unit: &'static str, at_least: bool) -> Self {
        let met = value
            .zip(limit)
            .is_some_and(|(value, limit)| if at_least { value >= limit } else { value <= limit });
        Self { name, value: value.map(rounded), limit: limit.map(rounded), unit, met, at_least }
    }
}

/// Prints the goals as a table for people.
pub fn table(goals: &[Goal]) {
    say(format_args!("\n{:<34} {:>12}    {:>12}  {:<6}", "", "measured", "promised", ""));
    for goal in goals {
        let shown = |figure: Option<f64>| figure.map_or_else(|| "?".to_owned(), |figure| figure.to_string());
        let verdict = match (goal.value.zip(goal.limit), goal.met) {
            (None, _) => "not measured",
            (_, true) => "met",
            (_, false) => "MISSED",
        };
        let relation = if goal.at_least { "≥" } else { "≤" };
        say(format_args!(
            "{:<34} {:>12}  {relation} {:>12}  {:<6} {verdict}",
            goal.name,
            shown(goal.value),
            shown(goal.limit),
            goal.unit,
        ));
    }
}

/// Prints a line. Nobody may be reading any more.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// The middle one; none of none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// To hundredths: more digits than that are noise.
pub fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_met_on_its_limit() {
        assert!(Goal::at_most("a", Some(3.0), 3.0, "ms").met);
        assert!(!Goal::at_most("a", Some(3.01), 3.0, "ms").met);
        assert!(Goal::at_least("a", Some(3.0), 3.0, "×").met);
        assert!(!Goal::at_least("a", Some(2.99), 3.0, "×").met);
    }

    #[test]
    fn what_could_not_be_measured_is_not_met() {
        assert!(!Goal::at_most("a", None, 3.0, "ms").met);
        assert!(!Goal::at_most("a", Some(1.0), None, "ms").met);
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
