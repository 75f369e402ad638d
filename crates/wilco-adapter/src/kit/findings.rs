//! What the kit found, case by case.

use std::fmt;

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// As it must be.
    Passed,
    /// Not as it must be: what was expected and what was seen.
    Failed(String),
    /// The contract or the harness leaves nothing to try, for this reason.
    NotApplicable(String),
}

/// One case of the suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// Its name, in words.
    pub name: String,
    /// What became of it.
    pub finding: Finding,
}

/// Everything found about one adapter. Prints as a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The adapter, its profile and ask, and the guarantee of its contract.
    pub of: String,
    /// The cases, in the order they were tried.
    pub cases: Vec<Case>,
}

impl Findings {
    /// The cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Case> {
        self.cases
            .iter()
            .filter(|c| matches!(c.finding, Finding::Failed(_)))
    }

    /// The finding of a case by its name.
    #[must_use]
    pub fn finding(&self, name: &str) -> Option<&Finding> {
        self.cases.iter().find(|c| c.name == name).map(|c| &c.finding)
    }

    /// Prints the table, and panics if a case failed or none passed.
    ///
    /// # Panics
    /// For tests: that is what it is for.
    pub fn assert_sound(&self) {
        println!("{self}");
        let failed = self.failed().count();
        assert!(failed == 0, "{failed} cases failed:\n{self}");
        let passed = self.cases.iter().any(|c| c.finding == Finding::Passed);
        assert!(passed, "nothing was tried:\n{self}");
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.of)?;
        let width = self.cases.iter().map(|c| c.name.len()).max().unwrap_or(0);
        for case in &self.cases {
            let (word, why) = match &case.finding {
                Finding::Passed => ("passed", ""),
                Finding::Failed(why) => ("FAILED", why.as_str()),
                Finding::NotApplicable(why) => ("n/a", why.as_str()),
            };
            writeln!(
                f,
                "{}",
                format!("  {word:6}  {:width$}  {why}", case.name).trim_end()
            )?;
        }
        Ok(())
    }
}

/// Why a case ends before its end.
pub(super) enum Stop {
    Failed(String),
    NotApplicable(String),
}

/// The case failed.
pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(why.into()))
}

/// There is nothing to try.
pub(super) fn not_applicable<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::NotApplicable(why.into()))
}

impl From<Result<(), Stop>> for Finding {
    fn from(result: Result<(), Stop>) -> Finding {
        match result {
            Ok(()) => Finding::Passed,
            Err(Stop::Failed(why)) => Finding::Failed(why),
            Err(Stop::NotApplicable(why)) => Finding::NotApplicable(why),
        }
    }
}
