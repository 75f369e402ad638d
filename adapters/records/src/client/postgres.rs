//! Postgres: one statement swaps the account and writes our reference, in a transaction that only our COMMIT makes stand.
//!
//! How long can it still land after we gave up? The server ends a statement after `timeout_s`, and a transaction nobody
//! speaks in after `timeout_s` more; a COMMIT that arrives later finds no transaction. So bytes that the network delivers
//! late, or that a paused daemon sends late, change nothing.

mod talk;

use std::str::FromStr;
use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::time::{Instant, timeout_at};
use wilco_adapter::secret::{SecretSource, Shape};
use wilco_core::ActId;

use super::{Changed, Looked, Order, Seen, Stop, elsewhere};
use crate::config::{Checked, Whereabouts};
use crate::judge::Judged;
use crate::wire::{Swap, clean};
use talk::{For, Talk, said};

/// The server, and what is said to it.
pub(crate) struct Postgres {
    config: Arc<Checked>,
}

impl Postgres {
    pub fn new(config: Arc<Checked>) -> Postgres {
        Postgres { config }
    }

    pub async fn read(&self, sup: &str) -> Result<Seen, String> {
        let (main, read) = self.places()?;
        let mut talk = self.begin(read.unwrap_or(main), For::Reading).await?;
        talk.check_reading().await.map_err(Stop::words)?;
        let rows = talk.rows(sup).await.map_err(Stop::words)?;
        let database = talk.database.clone();
        talk.end().await;
        Ok(Seen {
            rows,
            calls: None,
            database,
        })
    }

    pub async fn standing(&self, act: ActId, swap: &Swap) -> Result<Seen, String> {
        let mut talk = self.begin(self.places()?.0, For::Truth).await?;
        talk.check().await.map_err(Stop::words)?;
        let rows = talk.rows(&swap.sup).await.map_err(Stop::words)?;
        let calls = match self.config.callback || swap.callback {
            true => Some(talk.calls(act, swap).await.map_err(Stop::words)?),
            false => None,
        };
        let database = talk.database.clone();
        talk.end().await;
        Ok(Seen {
            rows,
            calls,
            database,
        })
    }

    pub async fn find(&self, act: ActId, swap: &Swap) -> Result<Looked, String> {
        let mut talk = self.begin(self.places()?.0, For::Truth).await?;
        let recorded = talk.recorded(act, swap).await.map_err(Stop::words)?;
        // Only to name who rang; the lookup does not depend on it.
        let calls = match recorded.is_some() && swap.callback {
            true => talk.calls(act, swap).await.ok(),
            false => None,
        };
        let database = talk.database.clone();
        talk.end().await;
        Ok(Looked {
            recorded,
            calls,
            database,
        })
    }

    pub async fn check(&self) -> Result<(), String> {
        let (main, read) = self.places()?;
        let mut talk = self.begin(main, For::Truth).await?;
        talk.check().await.map_err(Stop::words)?;
        let database = talk.database.clone();
        talk.end().await;
        if let Some(read) = read {
            let mut talk = self.begin(read, For::Reading).await?;
            talk.check_reading().await.map_err(Stop::words)?;
            let there = talk.database.clone();
            talk.end().await;
            if there != database {
                return Err(format!(
                    "read_url leads to another database ({there}) than database_url ({database})"
                ));
            }
        }
        Ok(())
    }

    pub fn shown(&self) -> String {
        let place = match self.places() {
            Ok((SecretSource::File(path), _)) => format!("the file {}", path.display()),
            Ok((SecretSource::Env(name), _)) => format!("the environment variable {name}"),
            Ok((SecretSource::Command(words), _)) => {
                format!("the program {}", words.first().map_or("", String::as_str))
            }
            Err(text) => text,
        };
        format!("Postgres (its address from {place})")
    }

    pub async fn change(&self, order: Order) -> Changed {
        let begun = match self.places() {
            Ok((main, _)) => self.begin(main, For::Truth).await,
            Err(text) => Err(text),
        };
        let mut talk = match begun {
            Ok(talk) => talk,
            Err(text) => return Changed::NotSent(text),
        };
        if talk.database != order.swap.database {
            return Changed::NotSent(elsewhere(&order.swap.database, &talk.database));
        }
        if let Err(stop) = talk.has_key().await {
            return Changed::NotSent(stop.words());
        }
        wilco_failpoint::reach!("send.connected");
        if let Err(e) = order.permit.may_send() {
            return Changed::NotSent(e.to_string());
        }
        wilco_failpoint::reach!("send.may_send");
        let (recorded, callback) = match talk.steps(&order).await {
            Ok(Judged::Stands(recorded, callback)) => (recorded, callback),
            Ok(Judged::Before(recorded)) => {
                talk.end().await;
                return Changed::Before(recorded);
            }
            Ok(Judged::Not(text)) | Err(Stop::Refused(text)) => {
                drop(talk);
                return self.refused(&order, text).await;
            }
            Err(Stop::Trouble(text)) => return Changed::NotSent(text),
        };
        if let Err(e) = order.permit.may_send() {
            return Changed::NotSent(e.to_string());
        }

        // Past this line the transaction may stand, and no failure of the line proves anything.
        let committed = talk.commit().await;
        wilco_failpoint::reach!("send.answered");
        match committed {
            Ok(()) => Changed::Done(recorded, callback),
            Err(Stop::Refused(text)) => self.refused(&order, text).await,
            Err(Stop::Trouble(text)) => Changed::Unknown(format!("at COMMIT: {text}")),
        }
    }

    /// The change was refused and rolled back. It may have been because it stands already.
    async fn refused(&self, order: &Order, text: String) -> Changed {
        match self.find(order.permit.act_id(), &order.swap).await {
            Ok(Looked {
                recorded: Some(recorded),
                ..
            }) => Changed::Before(recorded),
            // Nothing of this sending stands; of an earlier one, a lookup will tell.
            _ => Changed::Refused(text),
        }
    }

    fn places(&self) -> Result<(&SecretSource, Option<&SecretSource>), String> {
        match &self.config.whereabouts {
            Whereabouts::Postgres { main, read, .. } => Ok((main, read.as_ref())),
            Whereabouts::Sqlite(_) => Err("no address of a Postgres server is configured".to_owned()),
        }
    }

    async fn begin(&self, place: &SecretSource, what: For) -> Result<Talk<'_>, String> {
        let deadline = Instant::now() + self.config.timeout;
        let url = timeout_at(deadline, place.read("database_url", Shape::Word));
        let url = match url.await {
            Ok(Ok(url)) => url,
            Ok(Err(e)) => return Err(e.to_string()),
            Err(_) => return Err("the database's address was not read in time".to_owned()),
        };
        // The parser takes any scheme, and its own words may quote the address, and with it a password.
        let known = ["postgres://", "postgresql://"]
            .iter()
            .any(|s| url.expose().starts_with(s));
        let options = PgConnectOptions::from_str(url.expose()).ok().filter(|_| known);
        let options = options.ok_or(
            "what database_url's place holds is no address: write postgres://USER:PASSWORD@HOST/DATABASE",
        )?;
        self.may_speak(&options)?;
        let options = options
            .application_name("wilco-records")
            .statement_cache_capacity(0)
            .disable_statement_logging();
        let connected = timeout_at(deadline, PgConnection::connect_with(&options)).await;
        let db = match connected {
            Ok(Ok(db)) => db,
            Ok(Err(e)) => return Err(format!("the database cannot be reached: {}", said(&e))),
            Err(_) => return Err("the database cannot be reached: no connection in time".to_owned()),
        };
        Talk::begin(db, &self.config, deadline, what)
            .await
            .map_err(Stop::words)
    }

    /// A password and an account do not cross a network in the clear, unless the operator says so.
    fn may_speak(&self, options: &PgConnectOptions) -> Result<(), String> {
        let plaintext = matches!(
            self.config.whereabouts,
            Whereabouts::Postgres { plaintext: true, .. }
        );
        let host = options.get_host();
        let here = options.get_socket().is_some()
            || host.starts_with('/')
            || host.eq_ignore_ascii_case("localhost")
            || host
                .trim_matches(['[', ']'])
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
        let sealed = matches!(
            options.get_ssl_mode(),
            // `require` seals without asking who answers: whoever stands in between would get the password.
            PgSslMode::VerifyCa | PgSslMode::VerifyFull
        );
        if here || plaintext || (sealed && cfg!(feature = "tls")) {
            return Ok(());
        }
        let how = match cfg!(feature = "tls") {
            true => "add ?sslmode=verify-full to its address",
            false => {
                "build with the feature `tls` of the crate adapter-records and add ?sslmode=verify-full to its address"
            }
        };
        Err(format!(
            "the database at {} would be spoken to in the clear: {how}, or say plaintext = true",
            clean(host, 100)
        ))
    }
}
