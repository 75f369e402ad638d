//! TLS to a counterparty: which certificates, and, behind the feature `tls`, the connections.

#[cfg(feature = "tls")]
mod connector;

use std::path::PathBuf;

#[cfg(feature = "tls")]
pub use connector::Connector;

/// PEM files the operator names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// `ca_file`: certificates that may vouch for the counterparty, instead of the system's.
    pub ca: Option<PathBuf>,
    /// `client_cert_file` and `client_key_file`: our own certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
}
