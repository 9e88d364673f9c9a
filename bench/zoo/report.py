"""What a run of the zoo leaves: a line per row, the means, a picture, and bench/ledger, which a later run is compared with."""
import math
import time

from zoo.load import HERE

LEDGER = HERE.parent / "ledger"
LOSS = 0.97  # of the ledger's ratio: less is reported
BASE = "triton", "numpy"  # the peer that ratios are of, the first that a row has


def best(record, who):
    """(seconds, configuration) of a compiler's quickest, or None."""
    found = [(cell[who], config) for config, cell in record.get("configs", {}).items() if isinstance(cell.get(who), float)]
    return min(found) if found else None


def base_of(record):
    return next((b for b in BASE if best(record, b)), None)


def ratio(record):
    """How much faster tegula is at its best than the base at its best; None where one of them has no time."""
    mine, base = best(record, "tegula"), base_of(record)
    return best(record, base)[0] / mine[0] if mine and base else None


def each_ratio(record):
    """(configuration, ratio) where both have a time."""
    base = base_of(record)
    for config, cell in record.get("configs", {}).items():
        if base and isinstance(cell.get("tegula"), float) and isinstance(cell.get(base), float):
            yield config, cell[base] / cell["tegula"]


def failed(record):
    """tegula has no result for a configuration that its peer can do, or the row broke."""
    if "error" in record:
        return True
    base = base_of(record)
    return any(not isinstance(cell.get("tegula"), float) and (base is None or isinstance(cell.get(base), float)) for cell in record["configs"].values())


def geomean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def show(record):
    if "error" in record:
        print(f"{record['name']}: {record['error']}", flush=True)
        return
    cells = []
    for who in dict.fromkeys(w for cell in record["configs"].values() for w in cell):
        b = best(record, who)
        cells.append(f"{who} {record['work'] / b[0]:.4g}" + (f" ({b[1]})" if who in ("tegula", "triton") else "") if b else f"{who}: none")
    if isinstance(record.get("library"), float):
        cells.append(f"library {record['work'] / record['library']:.4g}")
    if "sustained" in record:
        cells.append("sustained " + ", ".join(f"{who} {record['work'] / t:.4g}" for who, t in record["sustained"].items()))
    r = ratio(record)
    print(f"{record['name']} [{record['unit']}] " + (f"{r:.3f}  " if r else "") + "; ".join(cells), flush=True)
    for config, cell in record["configs"].items():
        for who, t in cell.items():
            if isinstance(t, str):
                print(f"    {who} | {config}: {t}", flush=True)


def kernel_of(record):
    return record["name"].split(" / ")[0]


def by_kernel(records):
    """{entry: geometric mean of its rows' best ratios}"""
    groups = {}
    for r in records:
        if ratio(r):
            groups.setdefault(kernel_of(r), []).append(ratio(r))
    return {k: geomean(v) for k, v in groups.items()}


def summary(records, base):
    kernels = by_kernel(records)
    every = [(v, f"{r['name']} | {config}") for r in records for config, v in each_ratio(r)]
    rows = sorted((ratio(r), r["name"]) for r in records if ratio(r))
    lines = ["", f"kernel: tegula over {base}, best configuration of each, geometric mean of the rows"]
    lines += [f"  {v:6.3f}  {k}" for k, v in sorted(kernels.items(), key=lambda kv: kv[1])]
    lines.append(f"geometric mean over {len(kernels)} kernels, best configurations: {geomean(kernels.values()):.3f}")
    lines.append(f"geometric mean over {len(every)} configurations: {geomean(v for v, _ in every):.3f}")
    held = [(r["sustained"][base] / r["sustained"]["tegula"]) for r in records if {"tegula", base} <= set(r.get("sustained", {}))]
    if held:
        lines.append(f"geometric mean over {len(held)} products, sustained: {geomean(held):.3f}")
    third = [(cell["cubins"] / cell["tegula"], f"{r['name']} | {config}") for r in records for config, cell in r.get("configs", {}).items()
             if isinstance(cell.get("cubins"), float) and isinstance(cell.get("tegula"), float)]
    if third:
        lines.append(f"geometric mean over {len(third)} configurations, tegula over cubins: {geomean(v for v, _ in third):.3f}; least " + "; ".join(f"{v:.3f} {name}" for v, name in sorted(third)[:5]))
    lines += ["the ten worst rows:"] + [f"  {v:6.3f}  {name}" for v, name in rows[:10]]
    lines += ["the ten worst configurations:"] + [f"  {v:6.3f}  {name}" for v, name in sorted(every)[:10]]
    return "\n".join(lines)


def picture(info, records, path):
    """One point for each configuration, over the rows in order of their best ratio; geometric means as lines, the ten worst rows by name."""
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    rows = sorted((r for r in records if ratio(r)), key=ratio)
    figure, axes = plt.subplots(figsize=(14, 8))
    points = [(i, v) for i, r in enumerate(rows) for _, v in each_ratio(r)]
    axes.scatter([i for i, _ in points], [v for _, v in points], s=6, color="silver", label="each configuration")
    axes.scatter(range(len(rows)), [ratio(r) for r in rows], s=14, color="tab:blue", label="best of each")
    for value, name, style in ((geomean(by_kernel(records).values()), "geometric mean of kernels, best", "-"), (geomean(v for _, v in points), "geometric mean of configurations", "--")):
        axes.axhline(value, color="tab:red", linestyle=style, linewidth=1, label=f"{name}: {value:.3f}")
    axes.axhline(1, color="black", linewidth=0.5)
    for i, r in enumerate(rows[:10]):
        axes.annotate(r["name"], (i, ratio(r)), xytext=(0.02, 0.97 - 0.03 * i), textcoords="axes fraction", fontsize=7, arrowprops={"arrowstyle": "-", "linewidth": 0.3})
    axes.set_yscale("log")
    axes.set_xlabel("rows, by ratio")
    axes.set_ylabel("times as fast as the peer")
    axes.set_title(f"{info['device']}, {info['date']}: {len(rows)} rows")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=110)


def read_ledger():
    """{(row, device): (ratio, configuration, date)}"""
    out = {}
    if LEDGER.exists():
        for line in LEDGER.read_text().splitlines():
            if line and not line.startswith("#"):
                name, config, device, value, date = line.split(" | ")
                out[name, device] = float(value), config, date
    return out


def compare_with_ledger(info, records, record=False):
    """Prints what lost more than 3 % since the ledger was written; with `record` the rows measured now replace theirs. Returns the losses."""
    ledger, losses = read_ledger(), []
    for r in records:
        now, key = ratio(r), (r["name"], info["device"])
        if now and key in ledger and now < LOSS * ledger[key][0]:
            losses.append(r["name"])
            print(f"LOST {r['name']}: {now:.3f}, {ledger[key][0]:.3f} on {ledger[key][2]}")
        if now and record:
            ledger[key] = now, best(r, "tegula")[1], time.strftime("%Y-%m-%d")
    if record:
        head = "# The zoo's ratios (bench/zoo/report.py): row, tegula's best configuration, device, times as fast as the peer at its best, date. Written by --record.\n"
        LEDGER.write_text(head + "".join(" | ".join((name, config, device, f"{value:.3f}", date)) + "\n"
                                         for (name, device), (value, config, date) in sorted(ledger.items())))
    return losses
