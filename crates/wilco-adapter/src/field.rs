//! Rules of fields in an adapter's table of the configuration.

/// A field breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub field: &'static str,
    /// What it may be.
    pub rule: String,
    /// What it says.
    pub got: String,
}

/// That a number lies from `least` to `most`.
///
/// # Errors
/// [`Broken`], where it does not.
pub fn between(field: &'static str, got: u32, least: u32, most: u32) -> Result<(), Broken> {
    if (least..=most).contains(&got) {
        return Ok(());
    }
    Err(Broken {
        field,
        rule: format!("must be between {least} and {most}"),
        got: got.to_string(),
    })
}
