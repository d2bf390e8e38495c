//! One action as a JSON object with all columns.

use reprise_trace::{Action, Name};
use serde::Serialize;

use super::quote::hex;

#[derive(Serialize)]
struct Object<'a> {
    seq: u64,
    thread: u32,
    call: &'a str,
    begin_ns: u64,
    duration_ns: u64,
    args: [u64; 6],
    result: i64,
    errno: Option<&'a str>,
    path: Option<String>,
    path2: Option<String>,
    input: String,
    output: String,
    data: &'a [u32],
    data_bytes: u64,
    truncated_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handling: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_for: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paced_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_error_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    punctuality: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

/// The object, on one line, with the file that the action concerns where that is known. Names stand as in the trace's columns, structures in hexadecimal, content as numbers of blobs.
pub(crate) fn object(action: &Action, file: Option<String>) -> String {
    let object = Object {
        seq: action.seq,
        thread: action.thread,
        call: &action.call,
        begin_ns: action.begin_ns,
        duration_ns: action.duration_ns,
        args: action.args,
        result: action.result,
        errno: action.errno.as_deref(),
        path: action.path.as_ref().map(Name::to_text),
        path2: action.path2.as_ref().map(Name::to_text),
        input: hex(&action.input),
        output: hex(&action.output),
        data: &action.data,
        data_bytes: action.data_bytes,
        truncated_bytes: action.truncated_bytes,
        origin: action.origin,
        handling: action.handling.as_deref(),
        difference: action.difference.as_deref(),
        cpu_ns: action.cpu_ns,
        waited_ns: action.waited_ns,
        waited_for: action.waited_for.as_deref(),
        paced_ns: action.paced_ns,
        issue_error_ns: action.issue_error_ns,
        punctuality: action.punctuality.as_deref(),
        request: action.request,
        file,
    };
    // Numbers and strings alone: nothing in it can fail to serialize.
    serde_json::to_string(&object).unwrap_or_default()
}
