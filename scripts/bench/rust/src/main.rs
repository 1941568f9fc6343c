//! A plain verifier of audit logs, for `deno task bench` to hold `bxctl audit verify` against: serde reads
//! each line, serde_json writes it again, sha2 hashes it. It checks what a whole log without recoveries and
//! accepted breaks must fulfil, and stops at the first line that does not.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Class {
    Public,
    Private,
    Secret,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reason {
    NoGrant,
    GrantExpired,
    TaintTooHigh,
    DeniedByGrant,
    ApprovalRefused,
    ApprovalExpired,
    GrantsInvalid,
    AuditUnavailable,
    InvalidArguments,
    StateUnreadable,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase", deny_unknown_fields)]
enum Outcome {
    Allowed {},
    Ask {},
    Denied { reason: Reason },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Approved,
    Refused,
    Expired,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Result,
    Failed,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Event {
    Decision {
        session: String,
        call: String,
        tool: String,
        arguments: String,
        outcome: Outcome,
        grant: Option<String>,
        grant_sha256: Option<String>,
        taint: Class,
        untrusted: bool,
    },
    Approval {
        session: String,
        call: String,
        decision: u64,
        answer: Answer,
        by: Option<String>,
        post: Option<String>,
        reason: Option<String>,
        outcome: Outcome,
    },
    Result {
        session: String,
        call: String,
        decision: u64,
        status: Status,
        class: Class,
        untrusted: bool,
        truncated: bool,
        bytes: u64,
        sha256: String,
        taint_after: Class,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    seq: u64,
    time: String,
    prev: String,
    event: Event,
}

const MAX_SAFE: u64 = (1 << 53) - 1;

fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n)]);
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_session(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_call(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// `YYYY-MM-DDTHH:MM:SS.mmmZ`, and a time that there is.
fn is_time(text: &str) -> bool {
    let form = b"0000-00-00T00:00:00.000Z";
    let bytes = text.as_bytes();
    let fits = |(b, f): (&u8, &u8)| if *f == b'0' { b.is_ascii_digit() } else { b == f };
    if bytes.len() != form.len() || !bytes.iter().zip(form).all(fits) {
        return false;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u32>().unwrap_or(u32::MAX);
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        _ => 0,
    };
    (1..=days).contains(&day) && number(11, 13) < 24 && number(14, 16) < 60 && number(17, 19) < 60
}

fn has_form(record: &Record) -> bool {
    let event = match &record.event {
        Event::Decision { session, call, grant_sha256, .. } => {
            is_session(session) && is_call(call) && grant_sha256.as_deref().map_or(true, is_hash)
        }
        Event::Approval { session, call, decision, .. } => {
            is_session(session) && is_call(call) && *decision <= MAX_SAFE
        }
        Event::Result { session, call, decision, bytes, sha256, .. } => {
            is_session(session)
                && is_call(call)
                && is_hash(sha256)
                && *decision <= MAX_SAFE
                && *bytes <= MAX_SAFE
        }
    };
    event && record.seq <= MAX_SAFE && is_hash(&record.prev) && is_time(&record.time)
}

#[derive(Default)]
struct Chain {
    next_seq: u64,
    prev: String,
    time: String,
    clock_warnings: u64,
    asked: HashSet<u64>,
    running: HashSet<u64>,
}

impl Chain {
    /// Takes the next line, without its newline; says what is wrong with it.
    fn take(&mut self, line: &[u8]) -> Result<(), &'static str> {
        let record: Record = serde_json::from_slice(line).map_err(|_| "is no record")?;
        let again = serde_json::to_vec(&record).map_err(|_| "cannot be written")?;
        if again != line || !has_form(&record) {
            return Err("is not the one form of a record");
        }
        if record.seq != self.next_seq {
            return Err("has another seq");
        }
        if record.prev != self.prev {
            return Err("has another prev");
        }
        if record.time < self.time {
            self.clock_warnings += 1;
        }
        self.next_seq += 1;
        self.prev = hex(&Sha256::digest(line));
        self.time = record.time;
        match record.event {
            Event::Decision { outcome: Outcome::Ask {}, .. } => {
                self.asked.insert(record.seq);
            }
            Event::Decision { outcome: Outcome::Allowed {}, .. } => {
                self.running.insert(record.seq);
            }
            Event::Decision { .. } => {}
            Event::Approval { decision, outcome, .. } => {
                self.asked.remove(&decision);
                if !matches!(outcome, Outcome::Denied { .. }) {
                    self.running.insert(decision);
                }
            }
            Event::Result { decision, .. } => {
                self.running.remove(&decision);
            }
        }
        Ok(())
    }
}

fn main() {
    let mut chain = Chain { prev: "0".repeat(64), ..Chain::default() };
    for path in std::env::args().skip(1) {
        let file = File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut reader = BufReader::with_capacity(1 << 20, file);
        let mut line = Vec::new();
        let mut number = 0;
        loop {
            line.clear();
            let count = reader.read_until(b'\n', &mut line);
            if count.unwrap_or_else(|error| panic!("{path}: {error}")) == 0 {
                break;
            }
            number += 1;
            let ended = line.pop() == Some(b'\n');
            if let Err(what) = if ended { chain.take(&line) } else { Err("has no newline") } {
                println!("{path}:{number}: {what}");
                std::process::exit(1);
            }
        }
    }
    let (records, asked, running) = (chain.next_seq, chain.asked.len(), chain.running.len());
    println!(
        "ok, {records} records, head {}, {asked} abandoned, {running} unfinished, {} clock warnings",
        chain.prev, chain.clock_warnings
    );
}
