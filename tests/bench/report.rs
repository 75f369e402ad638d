//! What was measured: tables and goals for people, JSON for programs.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::stats::Spread;

/// Everything a run found out.
#[derive(Default)]
pub struct Report {
    goals: Vec<Goal>,
    tables: Vec<Table>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// What a ratio, or a figure, must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

struct Goal {
    name: String,
    what: String,
    measured: Spread,
    /// What was measured beside it in the same rounds; `None` where the figure itself is what counts.
    limit: Option<Spread>,
    bound: Bound,
}

/// A figure for orientation.
struct Figure {
    name: String,
    what: String,
    value: Spread,
}

/// Figures of one kind, row by row.
pub struct Table {
    name: String,
    title: String,
    columns: Vec<(&'static str, &'static str)>,
    rows: Vec<(String, Vec<Spread>)>,
}

impl Table {
    /// A table; each column has a name for programs and one for people.
    pub fn new(name: &str, title: &str, columns: &[(&'static str, &'static str)]) -> Table {
        Table {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    /// A row, with a figure for each column; one that was not measured is empty.
    pub fn row(&mut self, name: impl ToString, figures: Vec<Spread>) {
        self.rows.push((name.to_string(), figures));
    }

    fn print(&self) {
        println!("\n{}", self.title);
        let first = self.rows.iter().map(|(n, _)| n.len()).max().unwrap_or(0).max(7);
        let cell = |value: &Spread| match value.is_empty() {
            true => "-".to_owned(),
            false => number(value.median()),
        };
        let widths: Vec<usize> = self
            .columns
            .iter()
            .map(|(_, head)| head.chars().count().max(7))
            .collect();
        let heads = self.columns.iter().zip(&widths);
        let heads: String = heads.map(|((_, head), w)| format!("  {head:>w$}")).collect();
        println!("  {:first$}{heads}", "");
        for (name, figures) in &self.rows {
            let cells = figures.iter().zip(&widths);
            let cells: String = cells.map(|(f, w)| format!("  {:>w$}", cell(f))).collect();
            println!("  {name:>first$}{cells}");
        }
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(name, figures)| {
            let cells = self.columns.iter().zip(figures).filter(|(_, f)| !f.is_empty());
            let cells: Map<String, Value> = cells
                .map(|((column, _), f)| ((*column).to_owned(), spread(f)))
                .collect();
            (name.clone(), Value::Object(cells))
        });
        Value::Object(rows.collect())
    }
}

impl Report {
    /// A goal: the median over the rounds of `measured` over `limit`.
    pub fn goal(&mut self, name: &str, what: &str, measured: &Spread, limit: &Spread, bound: Bound) {
        self.goals.push(Goal {
            name: name.to_owned(),
            what: what.to_owned(),
            measured: measured.clone(),
            limit: Some(limit.clone()),
            bound,
        });
    }

    /// A goal for a figure itself: the median of its rounds.
    pub fn plain_goal(&mut self, name: &str, what: &str, measured: &Spread, bound: Bound) {
        self.goals.push(Goal {
            name: name.to_owned(),
            what: what.to_owned(),
            measured: measured.clone(),
            limit: None,
            bound,
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

    pub fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Something that whoever reads the figures must know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    pub fn print(&self) {
        println!("\nFigures: medians of the rounds. For orientation; they depend on the machine.");
        self.tables.iter().for_each(Table::print);
        if !self.figures.is_empty() {
            println!();
        }
        let width = self.figures.iter().map(|f| f.what.len()).max().unwrap_or(0);
        for figure in &self.figures {
            println!("  {:width$}  {}", figure.what, shown(&figure.value));
        }
        self.print_goals();
        for note in &self.notes {
            println!("\nNote: {note}");
        }
    }

    fn print_goals(&self) {
        if self.goals.is_empty() {
            return;
        }
        println!(
            "\nGoals: what was measured over what was possible in the same round, and the median of that.\n"
        );
        let width = self.goals.iter().map(|g| g.what.len()).max().unwrap_or(0);
        println!(
            "  {:width$}  {:>9}  {:>9}  {:24}  goal",
            "", "measured", "limit", "ratio (least to most)"
        );
        for goal in &self.goals {
            let limit = goal.limit.as_ref().map(|l| number(l.median()));
            let (limit, ratio) = match limit {
                Some(limit) => (limit, shown(&goal.ratio())),
                None => (String::new(), format!("          ({})", ends(&goal.measured))),
            };
            let measured = number(goal.measured.median());
            println!(
                "  {:width$}  {measured:>9}  {limit:>9}  {ratio:24}  {:14} {}",
                goal.what,
                goal.bound.shown(),
                goal.word()
            );
        }
        let missed = self.goals.iter().filter(|g| !g.met()).count();
        match missed {
            0 => println!("\nall {} goals are met", self.goals.len()),
            n => println!("\n{n} of {} goals are missed", self.goals.len()),
        }
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        let goals: Vec<Value> = self.goals.iter().map(Goal::json).collect();
        let figures = self.figures.iter().map(|f| (f.name.clone(), spread(&f.value)));
        let tables = self.tables.iter().map(|t| (t.name.clone(), t.json()));
        let text = format!(
            "{:#}\n",
            json!({
                "goals": goals,
                "figures": Value::Object(figures.collect()),
                "tables": Value::Object(tables.collect()),
                "notes": self.notes,
            })
        );
        std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
    }
}

impl Bound {
    fn met(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }

    fn shown(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("at least {bound}"),
            Bound::AtMost(bound) => format!("at most {bound}"),
        }
    }
}

impl Goal {
    /// What is judged, round by round.
    fn ratio(&self) -> Spread {
        match &self.limit {
            Some(limit) => self.measured.over(limit),
            None => self.measured.clone(),
        }
    }

    fn met(&self) -> bool {
        let ratio = self.ratio();
        !ratio.is_empty() && self.bound.met(ratio.median())
    }

    fn word(&self) -> &'static str {
        match (self.ratio().is_empty(), self.met()) {
            (true, _) => "NOT MEASURED",
            (false, true) => "met",
            (false, false) => "MISSED",
        }
    }

    fn json(&self) -> Value {
        let (word, bound) = match self.bound {
            Bound::AtLeast(bound) => ("at_least", bound),
            Bound::AtMost(bound) => ("at_most", bound),
        };
        let ratio = self.ratio();
        json!({
            "name": self.name,
            "what": self.what,
            "measured": self.measured.median(),
            "limit": self.limit.as_ref().map(Spread::median),
            "value": ratio.median(),
            "goal": bound,
            "kind": word,
            "met": self.met(),
            "rounds": ratio.rounds(),
        })
    }
}

fn spread(value: &Spread) -> Value {
    json!({ "median": value.median(), "min": value.min(), "max": value.max() })
}

fn shown(value: &Spread) -> String {
    format!("{:>8}  ({})", number(value.median()), ends(value))
}

fn ends(value: &Spread) -> String {
    format!("{} to {}", number(value.min()), number(value.max()))
}

/// Three digits are as many as such a figure deserves.
fn number(value: f64) -> String {
    match value {
        v if v >= 99_950.0 => format!("{:.0}k", v / 1000.0),
        v if v >= 9_995.0 => format!("{:.1}k", v / 1000.0),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}
