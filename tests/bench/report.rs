//! What was measured: a short table for people, JSON for programs.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::stats::Spread;

/// A ratio that must be reached.
struct Goal {
    name: String,
    what: String,
    ratio: Spread,
    goal: f64,
}

/// A figure for orientation.
struct Figure {
    name: String,
    what: String,
    value: Spread,
}

/// Everything a run found out.
#[derive(Default)]
pub struct Report {
    goals: Vec<Goal>,
    figures: Vec<Figure>,
}

impl Report {
    /// A goal: the median of `ratio` must be at least `goal`.
    pub fn goal(&mut self, name: &str, what: &str, ratio: Spread, goal: f64) {
        self.goals.push(Goal {
            name: name.to_owned(),
            what: what.to_owned(),
            ratio,
            goal,
        });
    }

    /// A figure; its name ends in its unit.
    pub fn figure(&mut self, name: &str, what: &str, value: Spread) {
        self.figures.push(Figure {
            name: name.to_owned(),
            what: what.to_owned(),
            value,
        });
    }

    pub fn print(&self, rounds: usize) {
        println!(
            "\nFigures: the median of {rounds} rounds (least to most). For orientation; they depend on the machine.\n"
        );
        let width = self.figures.iter().map(|f| f.what.len()).max().unwrap_or(0);
        for figure in &self.figures {
            println!("  {:width$}  {}", figure.what, shown(&figure.value));
        }
        println!("\nGoals: ratios within each round, and their median.\n");
        let width = self.goals.iter().map(|g| g.what.len()).max().unwrap_or(0);
        for goal in &self.goals {
            let word = if goal.met() { "met" } else { "MISSED" };
            let (what, ratio) = (&goal.what, shown(&goal.ratio));
            println!("  {what:width$}  {ratio:28}  goal {:<5} {word}", goal.goal);
        }
        let missed = self.goals.iter().filter(|g| !g.met()).count();
        match missed {
            0 => println!("\nall {} goals are met", self.goals.len()),
            n => println!("\n{n} of {} goals are missed", self.goals.len()),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        let goals: Vec<Value> = self.goals.iter().map(Goal::json).collect();
        let figures: Map<String, Value> = self
            .figures
            .iter()
            .map(|f| (f.name.clone(), spread(&f.value)))
            .collect();
        let text = format!("{:#}\n", json!({ "goals": goals, "figures": figures }));
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Goal {
    fn met(&self) -> bool {
        !self.ratio.rounds().is_empty() && self.ratio.median() >= self.goal
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "value": self.ratio.median(),
            "goal": self.goal,
            "met": self.met(),
            "what": self.what,
            "rounds": self.ratio.rounds(),
        })
    }
}

fn spread(value: &Spread) -> Value {
    json!({ "median": value.median(), "min": value.min(), "max": value.max() })
}

fn shown(value: &Spread) -> String {
    let (median, min, max) = (value.median(), value.min(), value.max());
    format!("{:>9} ({} to {})", number(median), number(min), number(max))
}

/// Three digits are as many as such a figure deserves.
fn number(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{}k", (v / 1000.0).round()),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
