//! After: a bank that takes signed messages only takes ours, made anew for each sending over the frozen bytes; what is not
//! signed, or signed wrongly, orders nothing and is told by the standard's code. The lab checks, and its check is held
//! against a signature of OpenSSL in its own tests. The key in `tests/jws` is worth nothing.

use std::path::PathBuf;

use adapter_bank::{BankConfig, SigningConfig};
use wilco_adapter::{Adapter, Outcome, ResolveError};
use wilco_lab::{LabOptions, Signing};

use crate::support::{Folder, Scene, adapter, pay};

fn key() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/jws/key.pem")
}

pub fn asks_for_signatures(lab: &mut LabOptions) {
    lab.signing = Some(Signing {
        public_key: include_str!("../jws/public.pem").to_owned(),
        key_id: "test-key-1".to_owned(),
        issuer: "org/software".to_owned(),
        trust_anchor: "openbanking.org.uk".to_owned(),
    });
}

pub fn signs(bank: &mut BankConfig) {
    bank.signing = Some(SigningConfig {
        key_file: key(),
        key_id: "test-key-1".to_owned(),
        issuer: "org/software".to_owned(),
        trust_anchor: "openbanking.org.uk".to_owned(),
    });
}

#[tokio::test]
async fn signed_messages_are_taken_in_both_versions() {
    for version in ["3.1", "4.0"] {
        let scene = Scene::with(asks_for_signatures, |bank| {
            signs(bank);
            bank.version = version.into();
        })
        .await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        scene
            .fault("domestic-payments", "drop-after-accept", 1, 0.0)
            .await;
        scene.execute(&job, &frozen).await;
        // The same bytes, signed again: the bank finds what they ordered.
        let again = scene.execute(&job, &frozen).await;
        assert!(matches!(again, Outcome::Executed(_)), "{again:?}");
        assert_eq!(scene.orders().await.len(), 1);
        assert_eq!(scene.bank.health().await, Ok(()), "reads are not signed");
    }
}

#[tokio::test]
async fn an_unsigned_message_orders_nothing() {
    for (version, code) in [("3.1", "UK.OBIE.Signature.Missing"), ("4.0", "U019")] {
        let scene = Scene::with(asks_for_signatures, |bank| {
            signs(bank);
            bank.version = version.into();
        })
        .await;
        let job = pay();
        let frozen = scene.prepare(&job).await;
        let mut unsigned = scene.config.clone();
        unsigned.signing = None;
        let unsigned = adapter(&unsigned, &scene.clock);
        let said = unsigned.resolve(&pay()).await;
        assert!(
            matches!(&said, Err(ResolveError::Refused { text, .. }) if text.contains(code)),
            "{said:?}"
        );
        let permit = crate::support::permit(&job, &frozen, scene.clock.clone());
        let outcome = unsigned.execute(permit, &frozen).await;
        assert!(
            matches!(&outcome, Outcome::Rejected(text) if text.contains(code)),
            "{outcome:?}"
        );
        assert!(scene.orders().await.is_empty());
    }
}

#[tokio::test]
async fn a_signature_of_somebody_else_orders_nothing() {
    type Break = fn(&mut SigningConfig);
    let cases: [(&str, Break); 3] = [
        ("kid", |s| s.key_id = "another-key".into()),
        ("http://openbanking.org.uk/iss", |s| {
            s.issuer = "somebody/else".into()
        }),
        ("http://openbanking.org.uk/tan", |s| {
            s.trust_anchor = "example.com".into()
        }),
    ];
    let scene = Scene::with(asks_for_signatures, signs).await;
    for (claim, break_it) in cases {
        let mut config = scene.config.clone();
        config
            .signing
            .as_mut()
            .map(break_it)
            .unwrap_or_else(|| panic!("signing"));
        let said = adapter(&config, &scene.clock).resolve(&pay()).await;
        assert!(
            matches!(&said, Err(ResolveError::Refused { text, .. })
                if text.contains("UK.OBIE.Signature.InvalidClaim") && text.contains(claim)),
            "{claim}: {said:?}"
        );
    }
    // Our clock an hour ahead of the bank's: a signature of the future.
    scene.clock.pass(10 * 365 * 86_400);
    let said = scene.resolve(&pay()).await;
    assert!(
        matches!(&said, Err(ResolveError::Refused { text, .. }) if text.contains("http://openbanking.org.uk/iat")),
        "{said:?}"
    );
}

/// The key is read for each sending: one that is gone by then sends nothing, one that was changed signs.
#[tokio::test]
async fn a_key_that_is_gone_sends_nothing() {
    let folder = Folder::new();
    let path = folder.0.join("key.pem");
    std::fs::copy(key(), &path).unwrap_or_else(|e| panic!("{e}"));
    let scene = Scene::with(asks_for_signatures, |bank| {
        signs(bank);
        if let Some(signing) = &mut bank.signing {
            signing.key_file = path.clone();
        }
    })
    .await;
    let job = pay();
    let frozen = scene.prepare(&job).await;
    std::fs::remove_file(&path).unwrap_or_else(|e| panic!("{e}"));
    let outcome = scene.execute(&job, &frozen).await;
    assert!(
        matches!(&outcome, Outcome::NotSent(text) if text.contains("signing.key_file") && !text.contains("PRIVATE")),
        "{outcome:?}"
    );
    assert!(scene.orders().await.is_empty());
    std::fs::copy(key(), &path).unwrap_or_else(|e| panic!("{e}"));
    let outcome = scene.execute(&job, &frozen).await;
    assert!(matches!(outcome, Outcome::Executed(_)), "{outcome:?}");
}
