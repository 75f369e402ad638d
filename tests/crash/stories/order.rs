//! The claim is on stable storage before the first byte of its order leaves: read off the system calls themselves.

use wilco_tests::{Daemon, Folder, Payment, Setup, until};

use crate::support::{ok, thread_passes};

/// How many acts are confirmed one after the other, and how many at once.
const ALONE: u32 = 6;
const AT_ONCE: u32 = 24;

#[tokio::test]
async fn each_claim_is_flushed_before_its_order_leaves() {
    let folder = Folder::new();
    let trace = folder.path().join("trace");
    let file = trace.display().to_string();
    // -D: the daemon stays our child, and strace watches from the side.
    let strace = [
        "strace",
        "-D",
        "-f",
        "-q",
        "-yy",
        "-s",
        "8192",
        "-e",
        "trace=pwrite64,write,writev,sendto,sendmsg,fdatasync,fsync",
        "-o",
        &file,
    ];
    let works = std::process::Command::new("strace").arg("-V").output();
    assert!(
        works.is_ok_and(|w| w.status.success()),
        "strace is not to be had (Debian: apt-get install strace): the order of system calls was not looked at"
    );
    let mut daemon = Daemon::start_with(Setup::quick().lab_apart().under(&strace)).await;
    let scheduler = daemon.scheduler();
    let mut prepared = Vec::new();
    for number in 1..=ALONE + AT_ONCE {
        prepared.push((number, ok(scheduler.prepare(&Payment::number(number).ho()).await)));
    }
    let together = prepared.split_off(usize::try_from(ALONE).unwrap_or(0));
    for (number, statement) in &prepared {
        ok(scheduler.confirm(statement, &an(*number)).await);
    }
    let confirmed = together.iter().map(|(number, statement)| {
        let scheduler = scheduler.clone();
        async move { ok(scheduler.confirm(statement, &an(*number)).await) }
    });
    futures::future::join_all(confirmed).await;
    thread_passes(&scheduler, "scheduler").await;
    let book = daemon.bank().book().await;
    daemon.kill();
    let text = until("the end of the trace", async || {
        let text = std::fs::read_to_string(&trace).ok()?;
        text.contains("+++ killed by SIGKILL +++").then_some(text)
    })
    .await;

    let acts: Vec<Act> = (1..=ALONE + AT_ONCE)
        .map(|number| {
            let payments = book.payments_of(&Payment::number(number).reference);
            assert_eq!(payments.len(), 1, "{payments:?}");
            Act {
                confirmation: an(number),
                key: payments[0]["idempotency_key"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            }
        })
        .collect();
    if let Err(why) = in_order(&text, &acts) {
        panic!("{why}");
    }
}

/// The check itself can fail: an order that overtakes its flush is found, and so is one whose flush came before its claim.
#[test]
fn an_order_that_overtakes_its_flush_is_found() {
    let act = [Act {
        confirmation: "scheduler-7000001".into(),
        key: "wkey".into(),
    }];
    let claim =
        r#"7 pwrite64(9</d/wilco.sqlite-wal>, "\0 RW1 AN scheduler-7000001 re=payer-101", 4096, 32) = 4096"#;
    let flush = "7 fdatasync(9</d/wilco.sqlite-wal>) = 0";
    let begun = "7 fdatasync(9</d/wilco.sqlite-wal> <unfinished ...>";
    let over = "7 <... fdatasync resumed>) = 0";
    let failed = "7 <... fdatasync resumed>) = -1 EIO (Input/output error)";
    let order = r#"8 writev(12<TCP:[1->2]>, [{iov_base="POST /open-banking/v3.1/pisp/domestic-payments HTTP/1.1\r\nx-idempotency-key: wkey\r\n", iov_len=90}], 1) = 90"#;
    let good = [
        [claim, flush, order].join("\n"),
        [claim, begun, over, order].join("\n"),
    ];
    for trace in good {
        assert_eq!(in_order(&trace, &act), Ok(()), "{trace}");
    }
    let bad = [
        [claim, order, flush].join("\n"),
        [claim, begun, order, over].join("\n"),
        [claim, begun, failed, order].join("\n"),
        [flush, claim, order].join("\n"),
        [flush, order].join("\n"),
        [claim, flush].join("\n"),
    ];
    for trace in bad {
        assert!(in_order(&trace, &act).is_err(), "{trace}");
    }
}

/// What an act is known by in a trace.
struct Act {
    /// The id of its confirmation, which is written with the claim and never before.
    confirmation: String,
    /// The idempotency key of its order.
    key: String,
}

fn an(number: u32) -> String {
    format!("scheduler-{}", 7_000_000 + number)
}

/// One flush of the log, by line: called at, returned at.
struct Flush(usize, usize);

fn in_order(trace: &str, acts: &[Act]) -> Result<(), String> {
    let lines: Vec<(&str, &str)> = trace
        .lines()
        .filter_map(|l| l.split_once(' ').map(|(pid, call)| (pid, call.trim_start())))
        .collect();
    let flushes = flushes(&lines);
    let sends = |call: &str| {
        ["write(", "writev(", "sendto(", "sendmsg("]
            .iter()
            .any(|c| call.starts_with(c))
    };
    for act in acts {
        let (an, key) = (
            format!("RW1 AN {} ", act.confirmation),
            format!("x-idempotency-key: {}", act.key),
        );
        let claim = lines
            .iter()
            .position(|(_, call)| {
                call.starts_with("pwrite64(") && call.contains("-wal>") && call.contains(&an)
            })
            .ok_or_else(|| format!("the claim with {an}was never written to the log"))?;
        let order = lines
            .iter()
            .position(|(_, call)| {
                sends(call)
                    && call.contains("POST /open-banking/v3.1/pisp/domestic-payments HTTP")
                    && call.contains(&key)
            })
            .ok_or_else(|| format!("the order with {key} never left"))?;
        if !flushes
            .iter()
            .any(|Flush(called, returned)| *called > claim && *returned < order)
        {
            return Err(format!(
                "{an}: written in line {claim} of the trace, its order left in line {order}, and no flush of the log was called \
                 and had returned between them"
            ));
        }
    }
    Ok(())
}

fn flushes(lines: &[(&str, &str)]) -> Vec<Flush> {
    let mut flushes = Vec::new();
    for (at, (pid, call)) in lines.iter().enumerate() {
        let flushes_log =
            ["fdatasync(", "fsync("].iter().any(|c| call.starts_with(c)) && call.contains("-wal>");
        if !flushes_log {
            continue;
        }
        let returned = if call.contains("<unfinished ...>") {
            let resumed =
                |c: &str| c.starts_with("<... fdatasync resumed>") || c.starts_with("<... fsync resumed>");
            lines[at..]
                .iter()
                .position(|(p, c)| p == pid && resumed(c))
                .map(|after| at + after)
        } else {
            Some(at)
        };
        // One that failed made nothing durable.
        flushes.extend(
            returned
                .filter(|r| lines[*r].1.trim_end().ends_with("= 0"))
                .map(|r| Flush(at, r)),
        );
    }
    flushes
}
