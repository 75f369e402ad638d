//! The counterparties to practise on beside the daemon. They share nothing with it but the process: their own ports, their
//! own folder, their own records.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use time::OffsetDateTime;
use wilco_lab::{DEFAULT_TOKEN, Lab, LabError, LabOptions, MailOptions};

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

/// Which of the lab's counterparties somebody points at. Every start of a daemon waits for its lab: nobody else is started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is one counterparty
pub struct Wanted {
    /// The bank.
    pub bank: bool,
    /// The mail drop.
    pub mail: bool,
    /// The vendor table.
    pub vendors: bool,
    /// The release folder.
    pub releases: bool,
    /// The git remote, which takes the git program a moment to fill at the first start.
    pub git: bool,
}

/// Starts the lab in the daemon's folder, on free loopback ports.
///
/// # Errors
/// [`StartError`].
pub async fn start(data: &Path, settings: &config::Lab, wanted: Wanted) -> Result<Lab, StartError> {
    let folder = data.join(LAB_FOLDER);
    files::folder(&folder)?;
    let token = token(&folder)?;
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut options = LabOptions::new(folder, anywhere);
    options.vendors = wanted.vendors;
    options.mail = wanted.mail.then(|| MailOptions::new(anywhere));
    options.git = wanted.git;
    options.releases = wanted.releases;
    options.today = today(&settings.today)?;
    options.manual = settings.manual;
    options.settle_after_s = u64::from(settings.settle_after_s);
    options.token = token;
    Ok(wilco_lab::start(options).await?)
}

/// Where the mail drop listens unless told otherwise: on the port after the lab's, or any where that one is any.
#[must_use]
pub fn mail_beside(listen: SocketAddr) -> SocketAddr {
    let port = match listen.port() {
        0 => 0,
        port => port.checked_add(1).unwrap_or(0),
    };
    SocketAddr::new(listen.ip(), port)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Folder;

    #[tokio::test]
    async fn the_daemons_lab_has_whom_somebody_points_at_below_its_own_folder() {
        for all in [false, true] {
            let folder = Folder::new();
            let wanted = Wanted {
                bank: true,
                mail: all,
                vendors: all,
                releases: all,
                git: all,
            };
            let settings = config::Lab::default();
            let lab = start(folder.path(), &settings, wanted).await.expect("starts");
            let below = folder.path().join(LAB_FOLDER);
            let here =
                |path: Option<&Path>| path.is_some_and(|path| path.starts_with(&below) && path.exists());
            assert_eq!(here(lab.vendors_path()) && here(lab.maildir()), all);
            assert_eq!(here(lab.releases_path()), all);
            assert_eq!(lab.mail_addr().is_some_and(|addr| addr.ip().is_loopback()), all);
            assert_eq!(lab.git_path().is_some() || lab.git_problem().is_some(), all);
            lab.stop().await;
        }
    }

    #[test]
    fn the_mail_drop_is_next_door() {
        for (lab, mail) in [
            ("127.0.0.1:8471", "127.0.0.1:8472"),
            ("[::1]:0", "[::1]:0"),
            ("127.0.0.1:65535", "127.0.0.1:0"),
        ] {
            let lab = lab.parse().expect("an address");
            assert_eq!(mail_beside(lab).to_string(), mail);
        }
    }
}
