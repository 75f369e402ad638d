//! The handshake: rustls with ring, the system's certificates or the operator's.

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::TlsFiles;
/// Makes TLS connections with one set of certificates, read once at start.
#[derive(Clone)]
pub struct Connector(TlsConnector);

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// A sentence naming the field and the file.
    pub fn new(files: &TlsFiles) -> Result<Connector, String> {
        let mut roots = RootCertStore::empty();
        match &files.ca {
            Some(path) => {
                for certificate in certificates("ca_file", path)? {
                    roots
                        .add(certificate)
                        .map_err(|e| format!("ca_file {}: {e}", path.display()))?;
                }
            }
            // A machine without certificates is no error here: the counterparty may be on loopback. The handshake says so.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|e| e.to_string())?
            .with_root_certificates(roots);
        let config = match &files.client {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates("client_cert_file", cert)?;
                let secret = PrivateKeyDer::from_pem_file(key)
                    .map_err(|e| format!("client_key_file {}: {e}", key.display()))?;
                config
                    .with_client_auth_cert(chain, secret)
                    .map_err(|e| format!("client_cert_file {}: {e}", cert.display()))?
            }
        };
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }

    /// Shakes hands over a connection that stands; `host` is the name the certificate must have.
    ///
    /// # Errors
    /// A sentence naming the host.
    pub async fn connect(&self, host: &str, tcp: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned()).map_err(|e| format!("{host}: {e}"))?;
        let stream = self.0.connect(name, tcp).await;
        stream.map_err(|e| format!("{host}: no TLS connection: {e}"))
    }
}

fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |e: String| format!("{field} {}: {e}", path.display());
    let read = CertificateDer::pem_file_iter(path).map_err(|e| wrong(e.to_string()))?;
    let found: Vec<_> = read.collect::<Result<_, _>>().map_err(|e| wrong(e.to_string()))?;
    if found.is_empty() {
        return Err(wrong("holds no certificate".to_owned()));
    }
    Ok(found)
}
