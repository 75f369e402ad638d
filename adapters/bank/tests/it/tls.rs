//! After: `https://` to a bank whose certificate the operator's authority signed, and to nobody else. The keys in
//! `tests/tls` belong to a test authority that is worth nothing.

use std::path::PathBuf;
use std::sync::Arc;

use adapter_bank::{BankAdapter, BankConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use wilco_adapter::Adapter;

use crate::support::{Folder, still};

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A server on localhost that wants a certificate of its own authority and answers 400 to everything.
async fn server() -> u16 {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap_or_else(|e| panic!("{e}"));
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier.build().unwrap_or_else(|e| panic!("{e}"));
    let key = PrivateKeyDer::from_pem_file(file("server.key.pem")).unwrap_or_else(|e| panic!("{e}"));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap_or_else(|e| panic!("{e}"))
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate("server.pem")], key)
        .unwrap_or_else(|e| panic!("{e}"));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let port = listener.local_addr().map(|a| a.port()).unwrap_or_default();
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            // A handshake that fails is what half of the cases are about.
            if let Ok(mut stream) = acceptor.accept(tcp).await {
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let _ = stream
                    .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                    .await;
                let _ = stream.shutdown().await;
            }
        }
    });
    port
}

#[tokio::test]
async fn only_the_operators_authority_vouches_for_the_bank() {
    let port = server().await;
    let folder = Folder::new();
    let token = folder.0.join("token");
    std::fs::write(&token, "s3cret-token").unwrap_or_else(|e| panic!("{e}"));
    let health = async |host: &str, files: &str| {
        let table = format!(
            "url = \"https://{host}:{port}\"\npayees = \"/nowhere.toml\"\ndebtor_account = \"20000055779911\"\n\
             token_file = {token:?}\n{files}"
        );
        let config = BankConfig::from_toml(&table).unwrap_or_else(|e| panic!("{e}"));
        let bank = BankAdapter::new(&config, still()).map_err(|e| e.to_string())?;
        bank.health().await
    };
    let ca = format!("ca_file = {:?}\n", file("ca.pem"));
    let ours = format!(
        "client_cert_file = {:?}\nclient_key_file = {:?}\n",
        file("server.pem"),
        file("server.key.pem")
    );
    assert_eq!(health("localhost", &format!("{ca}{ours}")).await, Ok(()));
    let said = health("localhost", &ours).await;
    assert!(
        said.as_ref().is_err_and(|t| t.contains("no TLS connection")),
        "another authority: {said:?}"
    );
    let said = health("127.0.0.1", &format!("{ca}{ours}")).await;
    assert!(
        said.as_ref().is_err_and(|t| t.contains("no TLS connection")),
        "another name: {said:?}"
    );
    let said = health("localhost", &ca).await;
    assert!(said.is_err(), "without our certificate: {said:?}");
    let said = health("localhost", "ca_file = \"/nowhere.pem\"\n").await;
    assert!(said.as_ref().is_err_and(|t| t.contains("ca_file")), "{said:?}");
}
