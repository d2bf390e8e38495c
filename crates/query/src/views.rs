//! Views for the questions that are asked most.

/// A view.
pub struct View {
    /// Its name.
    pub name: &'static str,
    /// What its rows are.
    pub doc: &'static str,
    /// The query that it stands for.
    pub sql: &'static str,
}

/// All views; later ones may use earlier ones.
pub const VIEWS: &[View] = &[
    View {
        name: "reads",
        doc: "Calls that read content, and did.",
        sql: "SELECT seq, thread, call, begin_ns, end_ns, duration_ns, file, file_id, offset, asked_bytes, moved_bytes AS bytes \
              FROM actions WHERE category = 'read' AND result >= 0",
    },
    View {
        name: "writes",
        doc: "Calls that write content, and did.",
        sql: "SELECT seq, thread, call, begin_ns, end_ns, duration_ns, file, file_id, offset, asked_bytes, moved_bytes AS bytes \
              FROM actions WHERE category = 'write' AND moved_bytes IS NOT NULL AND result >= 0",
    },
    View {
        name: "syncs",
        doc: "Calls that make something durable.",
        sql: "SELECT seq, thread, call, begin_ns, end_ns, duration_ns, file, result FROM actions WHERE category = 'sync'",
    },
    View {
        name: "errors",
        doc: "Calls that failed.",
        sql: "SELECT seq, thread, call, begin_ns, duration_ns, errno, file FROM actions WHERE result < 0",
    },
    View {
        name: "call_times",
        doc: "Response times by call.",
        sql: "SELECT call, count(*) AS calls, sum(result < 0) AS errors, sum(moved_bytes) AS bytes, \
              sum(duration_ns) AS total_ns, quantile(duration_ns, 0.5) AS p50_ns, quantile(duration_ns, 0.9) AS p90_ns, \
              quantile(duration_ns, 0.99) AS p99_ns, max(duration_ns) AS max_ns FROM actions GROUP BY call",
    },
    View {
        name: "file_io",
        doc: "What was done to each file.",
        sql: "SELECT file, count(*) AS calls, sum(category = 'read') AS reads, \
              sum(moved_bytes) FILTER (WHERE category = 'read') AS read_bytes, \
              sum(category = 'write' AND moved_bytes IS NOT NULL) AS writes, \
              sum(moved_bytes) FILTER (WHERE category = 'write') AS written_bytes, \
              sum(category = 'sync') AS syncs, sum(duration_ns) AS total_ns, min(begin_ns) AS first_ns, \
              max(end_ns) AS last_ns FROM actions WHERE file IS NOT NULL GROUP BY file",
    },
    View {
        name: "seconds",
        doc: "What was done in each second.",
        sql: "SELECT begin_ns / 1000000000 AS second, count(*) AS calls, sum(category = 'read') AS reads, \
              sum(moved_bytes) FILTER (WHERE category = 'read') AS read_bytes, \
              sum(category = 'write' AND moved_bytes IS NOT NULL) AS writes, \
              sum(moved_bytes) FILTER (WHERE category = 'write') AS written_bytes, \
              sum(category = 'sync') AS syncs FROM actions GROUP BY second",
    },
    View {
        name: "accesses",
        doc: "Reads and writes of files, each with whether it begins where the one before it on that file ended.",
        sql: "SELECT seq, thread, category, file, file_id, offset, moved_bytes AS bytes, begin_ns, duration_ns, \
              offset IS lag(offset + moved_bytes, 1, 0) OVER (PARTITION BY file_id ORDER BY seq) AS sequential \
              FROM actions WHERE offset IS NOT NULL AND category IN ('read', 'write')",
    },
    View {
        name: "replayed",
        doc: "Actions beside their replays (`--result`).",
        sql: "SELECT r.run, a.seq, a.thread, a.call, a.category, a.file, a.duration_ns AS recorded_ns, \
              r.duration_ns AS replayed_ns, r.handling, r.difference, r.waited_ns, r.waited_for \
              FROM results r JOIN actions a ON a.seq = r.seq",
    },
];
