//! After: this adapter by the suite that every adapter is held to. The judge is a history that the vendor table keeps by a
//! trigger of its own, whoever changes it and however.

use std::sync::Arc;

use wilco_adapter::kit::{self, Bench, Effect, Fault, FaultProxy, Finding, Still};
use wilco_adapter::{Adapter, Job, Undone};
use wilco_core::{ActId, Clock, Frozen};

use crate::house::{EXEC, House, NEW};

struct TableBench {
    house: House,
    line: Option<FaultProxy>,
}

impl TableBench {
    async fn open(house: House) -> TableBench {
        let house = house.with(|c| {
            c.timeout_s = 1;
            c.settle_window_s = 3;
        });
        house.sql("CREATE TABLE history (sup TEXT, old TEXT, new TEXT, eff TEXT, apref TEXT)");
        house.sql("CREATE TABLE knob (fault TEXT)");
        let judge = "INSERT INTO history VALUES (NEW.sup, OLD.acct, NEW.acct, NEW.eff, NEW.apref);";
        if house.is_sqlite() {
            house.sql(&format!(
                "CREATE TRIGGER judge AFTER UPDATE OF acct ON vendor BEGIN {judge} END"
            ));
            house.sql(
                "CREATE TRIGGER refuses BEFORE UPDATE ON vendor WHEN EXISTS (SELECT 1 FROM knob WHERE fault = 'refuse') \
                 BEGIN SELECT RAISE(ABORT, 'no changes at month end'); END",
            );
            house.sql(
                "CREATE TRIGGER errs AFTER UPDATE OF acct ON vendor WHEN EXISTS (SELECT 1 FROM knob WHERE fault = 'wrong') \
                 BEGIN UPDATE vendor SET acct = '99-99-99/99999999' WHERE sup = NEW.sup; END",
            );
        } else {
            house.sql(&format!(
                "CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {judge} RETURN NULL; END $$"
            ));
            house.sql(
                "CREATE TRIGGER judge AFTER UPDATE OF acct ON vendor FOR EACH ROW EXECUTE FUNCTION judge()",
            );
            house.sql(
                "CREATE FUNCTION knob() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF EXISTS (SELECT 1 FROM knob WHERE fault = 'refuse') THEN RAISE EXCEPTION 'no changes at month end'; END IF; \
                 IF EXISTS (SELECT 1 FROM knob WHERE fault = 'wrong') THEN NEW.acct := '99-99-99/99999999'; END IF; \
                 RETURN NEW; END $$",
            );
            house.sql("CREATE TRIGGER knob BEFORE UPDATE ON vendor FOR EACH ROW EXECUTE FUNCTION knob()");
        }
        TableBench { house, line: None }
    }
}

#[async_trait::async_trait]
impl Bench for TableBench {
    async fn adapter(&self) -> Arc<dyn Adapter> {
        Arc::new(self.house.adapter())
    }

    fn clock(&self) -> Arc<Still> {
        self.house.clock.clone()
    }

    async fn job(&self, n: u32) -> Job {
        let (sup, old) = (format!("kit-{n}"), format!("50-50-50/{n:08}"));
        let there = self
            .house
            .sql(&format!("SELECT sup FROM vendor WHERE sup = '{sup}'"));
        if there.is_empty() {
            self.house.sql(&format!(
                "INSERT INTO vendor (sup, acct) VALUES ('{sup}', '{old}')"
            ));
        }
        let (acct, item) = (format!("60-60-60/{n:08}"), format!("sup:{sup}"));
        let slots = [
            ("sup", sup.as_str()),
            ("acct", acct.as_str()),
            ("eff", "20251005"),
            ("apref", "FD-0930"),
        ];
        kit::job(self.house.clock.now(), "pay", "CHGBANK", &item, &slots, &EXEC)
    }

    async fn effects(&self, _act: ActId, frozen: &Frozen) -> Vec<Effect> {
        // Each job has a supplier of its own; the way back starts from the other account.
        let (sup, prev) = (frozen.value("sup"), frozen.value("prev"));
        let (sup, prev) = (sup.unwrap_or_default(), prev.unwrap_or_default());
        let rows = self.house.sql(&format!(
            "SELECT sup, new, eff, apref, old FROM history WHERE sup = '{sup}' AND old = '{prev}'"
        ));
        let effect = |row: &str| Effect {
            values: ["sup", "acct", "eff", "apref", "prev"]
                .iter()
                .zip(row.split('|'))
                .map(|(slot, value)| ((*slot).to_owned(), value.to_owned()))
                .collect(),
            ..Effect::default()
        };
        rows.lines().map(effect).collect()
    }

    async fn effects_in_all(&self) -> Option<usize> {
        self.house.sql("SELECT count(*) FROM history").parse().ok()
    }

    async fn settle(&self) {
        self.house.sql("DELETE FROM knob");
        // The server ends by itself what nobody speaks in any more, within the limits it was given.
        #[cfg(feature = "postgres-tests")]
        crate::line::quiet(&self.house).await;
        self.house
            .clock
            .pass(i64::from(self.house.config.settle_window_s));
    }

    fn proxy(&self) -> Option<&FaultProxy> {
        self.line.as_ref()
    }

    async fn arm(&self, fault: Fault) -> bool {
        let word = match fault {
            Fault::Refuse => "refuse",
            Fault::WrongValues => "wrong",
            _ => return false,
        };
        self.house.sql(&format!("INSERT INTO knob VALUES ('{word}')"));
        true
    }

    async fn stop(&self) -> bool {
        match &self.line {
            Some(line) => line.refuse(true).await,
            None => move_file(&self.house, "", ".away"),
        }
        true
    }

    async fn start(&self) {
        match &self.line {
            Some(line) => line.refuse(false).await,
            None => move_file(&self.house, ".away", ""),
        }
    }

    async fn undo(&self, undone: Undone) -> Option<Job> {
        let mut job = kit::job(self.house.clock.now(), "pay", "UNDO", "sup:kit", &[], &EXEC);
        job.undo = Some(undone);
        Some(job)
    }
}

fn move_file(house: &House, from: &str, to: &str) {
    let name = |end: &str| format!("{}{end}", house.config.path.display());
    std::fs::rename(name(from), name(to)).unwrap_or_else(|e| panic!("{e}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_file() {
    let bench = TableBench::open(House::sqlite()).await;
    let findings = kit::run(&bench).await;
    findings.assert_sound();
    for case in [
        "the same bytes again: no second effect",
        "too late: not sent",
        "several at once do not mix",
        "reversed by an act of its own, or refused by name",
        "it refuses: rejected, and nothing happened",
        "it is down: not sent, health says so, and it comes back by itself",
    ] {
        assert_eq!(findings.finding(case), Some(&Finding::Passed), "{case}");
    }
    assert_eq!(bench.house.account("marlow"), crate::house::OLD);
    assert_ne!(bench.house.account("kit-1"), NEW);
}

#[cfg(feature = "postgres-tests")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_server_behind_a_line_that_breaks() {
    let mut bench = TableBench::open(House::postgres()).await;
    let line = crate::line::tcp_to_the_server().await;
    let url = crate::line::url_through(&bench.house, line.addr());
    let file = bench.house.folder.write("url-through", &url);
    bench.house.config.database_url_file = Some(file);
    bench.line = Some(line);
    let findings = kit::run(&bench).await;
    findings.assert_sound();
    for case in [
        "the same bytes again: no second effect",
        "a lookup that breaks never denies what is there",
        "reversed by an act of its own, or refused by name",
        "it is down: not sent, health says so, and it comes back by itself",
    ] {
        assert_eq!(findings.finding(case), Some(&Finding::Passed), "{case}");
    }
}
