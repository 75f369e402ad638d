//! The message signature `x-jws-signature` (OBIE R/W 3.1 and 4.0, message signing): a detached JWS (RFC 7515, appendix F)
//! by PS256 over the exact bytes of a body. The body is frozen; its signature is made for each sending, because it says
//! when it was made.

use std::path::Path;

use data_encoding::BASE64URL_NOPAD;
use serde_json::json;
use wilco_core::Timestamp;

use crate::config::SigningConfig;

const IAT: &str = "http://openbanking.org.uk/iat";
const ISS: &str = "http://openbanking.org.uk/iss";
const TAN: &str = "http://openbanking.org.uk/tan";

/// The signature must have been made in the past by the bank's clock, and that may be behind ours.
const BACKDATED_S: i64 = 5;
/// The largest key file read, in bytes.
const KEY_MAX: u64 = 64 * 1024;

/// Signs with the key of one configuration.
#[derive(Debug, Clone)]
pub(crate) struct Signer(SigningConfig);

impl Signer {
    /// The signer, its key tried once.
    ///
    /// # Errors
    /// Why the key cannot sign.
    pub fn new(config: &SigningConfig) -> Result<Signer, String> {
        let key = read(&config.key_file)?;
        ps256(&key, b"")?;
        Ok(Signer(config.clone()))
    }

    /// The value of `x-jws-signature` for `body`, made at `now`. The key is read anew, so that a changed one needs no
    /// restart and none stays in memory.
    ///
    /// # Errors
    /// Why it could not be signed; never anything of the key.
    pub async fn sign(&self, body: &str, now: Timestamp) -> Result<String, String> {
        let header = BASE64URL_NOPAD.encode(header(&self.0, now).as_bytes());
        let message = format!("{header}.{}", BASE64URL_NOPAD.encode(body.as_bytes()));
        let path = self.0.key_file.clone();
        // Reading a file blocks, and so does a signature, for about a millisecond.
        let signed = tokio::task::spawn_blocking(move || ps256(&read(&path)?, message.as_bytes()));
        let signature = signed.await.map_err(|e| e.to_string())??;
        Ok(format!("{header}..{}", BASE64URL_NOPAD.encode(&signature)))
    }
}

/// The protected header.
fn header(config: &SigningConfig, now: Timestamp) -> String {
    json!({
        "alg": "PS256",
        "typ": "JOSE",
        "cty": "application/json",
        "kid": config.key_id,
        IAT: now.0.div_euclid(1_000_000) - BACKDATED_S,
        ISS: config.issuer,
        TAN: config.trust_anchor,
        "crit": [IAT, ISS, TAN],
    })
    .to_string()
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let wrong = |e: String| format!("signing.key_file {}: {e}", path.display());
    let file = std::fs::File::open(path).map_err(|e| wrong(e.to_string()))?;
    let mut pem = Vec::new();
    file.take(KEY_MAX + 1)
        .read_to_end(&mut pem)
        .map_err(|e| wrong(e.to_string()))?;
    if pem.len() as u64 > KEY_MAX {
        return Err(wrong(format!("it is larger than {KEY_MAX} bytes")));
    }
    Ok(pem)
}

#[cfg(feature = "jws")]
fn ps256(pem: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
    use ring::signature::{RSA_PSS_SHA256, RsaKeyPair};
    use rustls_pki_types::PrivatePkcs8KeyDer;
    use rustls_pki_types::pem::PemObject;

    let rule = "must hold an RSA key of 2048 to 4096 bits in PEM (PKCS#8, BEGIN PRIVATE KEY)";
    let wrong = |e: String| format!("signing.key_file {rule}: {e}");
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem).map_err(|e| wrong(e.to_string()))?;
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).map_err(|e| wrong(e.to_string()))?;
    let mut signature = vec![0; key.public().modulus_len()];
    let random = ring::rand::SystemRandom::new();
    key.sign(&RSA_PSS_SHA256, &random, message, &mut signature)
        .map_err(|e| format!("the message could not be signed: {e}"))?;
    Ok(signature)
}

#[cfg(not(feature = "jws"))]
fn ps256(_: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
    Err("signing needs a build with the feature `jws` of the crate adapter-bank".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_standards_claims_and_marks_its_own_as_critical() {
        let config = SigningConfig {
            key_file: "key.pem".into(),
            key_id: "key-1".to_owned(),
            issuer: "org/software".to_owned(),
            trust_anchor: "openbanking.org.uk".to_owned(),
        };
        let header = header(&config, Timestamp(1_790_000_005_999_999));
        let want = r#"{"alg":"PS256","typ":"JOSE","cty":"application/json","kid":"key-1","http://openbanking.org.uk/iat":1790000000,"http://openbanking.org.uk/iss":"org/software","http://openbanking.org.uk/tan":"openbanking.org.uk","crit":["http://openbanking.org.uk/iat","http://openbanking.org.uk/iss","http://openbanking.org.uk/tan"]}"#;
        assert_eq!(header, want);
    }
}
