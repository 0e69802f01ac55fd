"""Turns outcomes into figures and tables: ratios against the faster judged peer, the worst first."""

import dataclasses
import statistics

import jobs
import systems

DRIFT = 0.15  # a round whose limit probe is so much slower than the median is left out
DRIFT_MIN_S = 0.05  # a shorter probe says nothing about the machine
SPREAD_NOISY = 0.30
COLUMN_ORDER = ("weir", "polars", "duckdb", "pyarrow")


def noisy_rounds(outcome):
    """The rounds whose limit probe drifted: the machine was doing something else."""
    times = [p["decompress_s"] for p in outcome.probes]
    if len(times) < 3:
        return set()
    middle = statistics.median(times)
    if middle < DRIFT_MIN_S:
        return set()
    return {turn for turn, t in enumerate(times) if t > middle * (1 + DRIFT)}


def entry_figures(entry, drifted):
    """Medians over the quiet rounds; over all of them, marked noisy, where fewer than half were quiet."""
    if entry.error or not entry.samples:
        return {"error": entry.error or "no round ran", "variants": entry.variants}
    everything = [s for _, s in entry.samples]
    quiet = [s for turn, s in entry.samples if turn not in drifted and not s.noisy]
    used = quiet if len(quiet) * 2 >= len(everything) else everything
    seconds = [s.seconds for s in used]
    median = statistics.median(seconds)
    spread = (max(seconds) - min(seconds)) / median if median else 0.0
    return {
        "median_s": median,
        "min_s": min(seconds),
        "spread": spread,
        "wall_s": statistics.median(s.wall_s for s in used),
        "import_s": statistics.median(s.import_s for s in used),
        "cpu_s": statistics.median(s.cpu_s for s in used),
        "peak_mib": max(s.peak_mib for s in everything),
        "hwm_mib": max(s.hwm_mib for s in everything),
        "foreign": max(s.foreign for s in used),
        "rounds_used": len(used),
        "rounds": len(everything),
        "noisy": len(quiet) < len(used) or spread > SPREAD_NOISY,
        "variant": entry.variant,
        "variants": entry.variants,
        "check": entry.check,
        "version": everything[-1].version,
        "samples": [dataclasses.asdict(s) | {"round": turn} for turn, s in entry.samples],
    }


def figures(outcome):
    """Everything known of one job, ready for JSON."""
    drifted = noisy_rounds(outcome)
    entries = {label: entry_figures(entry, drifted) for label, entry in outcome.entries.items()}
    job = outcome.job
    result = {
        "job": job.name,
        "bounded": job.bounded,
        "rows_in": job.facts["rows"] * (len(job.files) // job.facts["files"]),
        "decoded_bytes": job.facts["decoded_bytes"] * (len(job.files) // job.facts["files"]),
        "systems": entries,
        "drifted_rounds": sorted(drifted),
        "probes": outcome.probes,
        "probe_error": outcome.probe_error,
    }
    if job.input != "parquet":
        result["text_bytes"] = job.facts["file_bytes"]
    if outcome.probes:
        result["limit_s"] = statistics.median(p["limit_s"] for p in outcome.probes)
    weir = entries.get("weir", {}).get("median_s")
    peers = {n: entries[n]["median_s"] for n in systems.JUDGED if "median_s" in entries.get(n, {})}
    if peers:
        result["best_peer"] = min(peers, key=peers.get)
    if weir and peers:
        result["ratio"] = peers[result["best_peer"]] / weir
    if weir and outcome.probes:
        result["share_of_limit"] = result["limit_s"] / weir
    return result


def time_cell(entry):
    if entry is None:
        return ""
    if "error" in entry:
        short = ("not built", "WRONG RESULT")
        return next((text for text in short if entry["error"].startswith(text)), "error")
    seconds = entry["median_s"]
    text = f"{seconds * 1000:.0f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
    return f"{text} ±{entry['spread'] * 50:.0f} %" + (" ~" if entry["noisy"] else "")


def peaks_cell(entries, labels):
    return " / ".join(f"{entries[n]['peak_mib']:.0f}" if "peak_mib" in entries.get(n, {}) else "-" for n in labels)


def cpu_cell(entries, labels):
    return " / ".join(f"{entries[n]['cpu_s']:.1f}" if "cpu_s" in entries.get(n, {}) else "-" for n in labels)


def badness(result):
    """Sorts failures of weir first, then the worst ratios; jobs without a ratio (weir not built) last."""
    error = result["systems"].get("weir", {}).get("error", "not built")
    failed = "ratio" not in result and error != "not built"
    return (0.0 if failed else result.get("ratio", 1e9), result["job"])


def ratio_table(results):
    """The main table, the worst first."""
    labels = [n for n in COLUMN_ORDER if any(n in r["systems"] for r in results)]
    head = ["job", "peer ÷ weir", *labels, "of limit", f"CPU s ({'/'.join(labels)})", f"peak MiB ({'/'.join(labels)})"]
    rows = []
    for r in sorted(results, key=badness):
        entries = r["systems"]
        ratio = f"{r['ratio']:.2f} ({r['best_peer']})" if "ratio" in r else "-"
        limit = f"({r['limit_s']:.2f} s)" if "limit_s" in r else "-"
        share = f"{r['share_of_limit']:.0%}" if "share_of_limit" in r else limit
        times = [time_cell(entries.get(n)) for n in labels]
        rows.append([r["job"], ratio, *times, share, cpu_cell(entries, labels), peaks_cell(entries, labels)])
    return table(head, rows)


def text_table(results):
    """GB of text a second, beside a newline scan of the same files."""
    labels = [n for n in COLUMN_ORDER if any(n in r["systems"] for r in results)]
    rows = []
    for r in results:
        times = [r["systems"].get(n, {}).get("median_s") for n in labels] + [r.get("limit_s")]
        rows.append([r["job"], *(f"{r['text_bytes'] / t / 1e9:.2f}" if t else "-" for t in times)])
    return table(["GB of text a second", *labels, "newlines counted"], rows)


def bounded_verdict(entry):
    """Whether the limit was kept, by the stricter of the two measures of memory."""
    highest = max(entry["peak_mib"], entry["hwm_mib"])
    return f"{'kept' if highest <= jobs.BOUNDED_ALLOWED_MIB else 'NOT KEPT'} (≤ {jobs.BOUNDED_ALLOWED_MIB})"


def bounded_table(results):
    head = ["job", "system", "time", "slowdown", "peak MiB (anon + shared)", "VmHWM MiB", "verdict"]
    limit = jobs.BOUNDED_LIMIT_MIB
    rows = []
    for r in results:
        for label, entry in r["systems"].items():
            if "error" in entry:
                rows.append([r["job"], label, time_cell(entry), "", "", "", entry["error"][:60]])
                continue
            free = r["systems"].get("weir", {}).get("median_s")
            slower = f"{entry['median_s'] / free:.2f} ×" if free and label == f"weir {limit}M" else ""
            peaks = [f"{entry['peak_mib']:.0f}", f"{entry['hwm_mib']:.0f}"]
            verdict = bounded_verdict(entry) if f"{limit}M" in label else ""
            name = f"{r['job']} ({r['decoded_bytes'] / 1e9:.1f} GB)"
            rows.append([name, label, time_cell(entry), slower, *peaks, verdict])
    return table(head, rows)


def table(head, rows):
    """A Markdown table, padded so that it also reads well on a terminal."""
    cells = [head, *rows]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(head))]
    lines = ["| " + " | ".join(str(c).ljust(w) for c, w in zip(row, widths)) + " |" for row in cells]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def remarks(results):
    """Errors, wrong results, noise, and the settings tried, one line each."""
    lines = []
    for r in results:
        noisy = [
            f"{label} (spread {entry['spread']:.0%}, others used up to {entry['foreign']:.0%} of the machine)"
            for label, entry in r["systems"].items()
            if entry.get("noisy")
        ]
        if noisy:
            lines.append(f"- {r['job']}: noisy: {', '.join(noisy)}")
        for label, entry in r["systems"].items():
            if entry.get("error") and entry["error"] != "not built":
                lines.append(f"- {r['job']}: {label}: {entry['error']}")
        if r["drifted_rounds"]:
            turns = ", ".join(str(t + 1) for t in r["drifted_rounds"])
            lines.append(f"- {r['job']}: round {turns} left out: the limit probe drifted by more than {DRIFT:.0%}")
        if r["probe_error"]:
            lines.append(f"- {r['job']}: no limit: {r['probe_error']}")
    return lines


def variants_line(results):
    chosen = {}
    for r in results:
        for label, entry in r["systems"].items():
            if len(entry.get("variants", {})) > 1 and entry.get("variant"):
                chosen.setdefault(f"{label}: {entry['variant']}", []).append(r["job"])
    return [f"- {what}, the faster in the warm-up of {len(names)} jobs" for what, names in sorted(chosen.items())]


def markdown(results, machine):
    """The whole report."""
    plain = [r for r in results if not r["bounded"]]
    limited = [r for r in results if r["bounded"]]
    parts = ["# weir benchmark\n", "\n".join(f"- {key}: {value}" for key, value in machine.items()), ""]
    if plain:
        parts += [
            "Times are medians; for weir of the whole process, for the peers of the job after import (first-row: whole "
            "process for all). ± is half the spread. `peer ÷ weir` is the faster of Polars and DuckDB: above 1, weir "
            "is faster. `of limit` is the time of decompressing the same pages plus one write pass as a share of "
            "weir's time (in brackets: that time, where weir did not run). `~` marks noise.\n",
            ratio_table(plain),
            "",
        ]
    text = [r for r in plain if "text_bytes" in r]
    if text:
        parts += ["`of limit` is, for text, the time in which its newlines are counted.\n", text_table(text), ""]
    if limited:
        parts += [f"Bounded runs, limit {jobs.BOUNDED_LIMIT_MIB} MiB:\n", bounded_table(limited), ""]
    notes = variants_line(results) + remarks(results)
    if notes:
        parts += ["Remarks:\n", *notes, ""]
    return "\n".join(parts)
