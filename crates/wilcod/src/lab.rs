//! The practice bank beside the daemon. It shares nothing with it but the process: its own port, its own folder, its
//! own book.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use time::OffsetDateTime;
use wilco_lab::{DEFAULT_TOKEN, Lab, LabError, LabOptions};

use crate::config;
use crate::files::{self, FileError};

/// The lab's folder in the daemon's.
pub const LAB_FOLDER: &str = "lab";

/// Where the lab's token stands, in the lab's folder. No secret: the lab holds no money.
pub const TOKEN_FILE: &str = "token";

/// Why the lab did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The lab's own reason.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Its folder or token file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its date is no date.
    #[error("lab.today: `clock`, `start` or a date YYYYMMDD")]
    Today,
}

/// Starts the lab in the daemon's folder, on a free loopback port.
///
/// # Errors
/// [`StartError`].
pub async fn start(data: &Path, settings: &config::Lab) -> Result<Lab, StartError> {
    let folder = data.join(LAB_FOLDER);
    files::folder(&folder)?;
    let token = token(&folder)?;
    let mut options = LabOptions::new(folder, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    options.today = today(&settings.today)?;
    options.manual = settings.manual;
    options.settle_after_s = u64::from(settings.settle_after_s);
    options.token = token;
    Ok(wilco_lab::start(options).await?)
}

/// The token of a lab's folder; written there for clients where it is missing.
///
/// # Errors
/// [`FileError`].
pub fn token(folder: &Path) -> Result<String, FileError> {
    let path = folder.join(TOKEN_FILE);
    if let Some(text) = files::read(&path)? {
        return Ok(text.trim().to_owned());
    }
    files::write_whole(&path, 0o600, &format!("{DEFAULT_TOKEN}\n"))?;
    Ok(DEFAULT_TOKEN.to_owned())
}

/// The date a setting means: none for one that follows the clock.
///
/// # Errors
/// [`StartError::Today`].
pub fn today(setting: &str) -> Result<Option<time::Date>, StartError> {
    match setting {
        "clock" => Ok(None),
        "start" => Ok(Some(OffsetDateTime::now_utc().date())),
        date => config::date_from(date).map(Some).ok_or(StartError::Today),
    }
}
