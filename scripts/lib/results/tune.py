"""Searches of hyper-parameters: tables and plot of docs/results.md. See --help."""

import argparse
import json
import pathlib
import sys

import page
import tune_digits
import tune_slots

ROOT = pathlib.Path(__file__).resolve().parents[3]
SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(prog="reproduce-tune.sh", description=__doc__)
    parser.add_argument("artifact", type=pathlib.Path, help="folder of Pollux's published artifact")
    parser.add_argument("data", type=pathlib.Path, help="folder with MNIST's 10,000 test images")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder of a build")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "tune", help="for results")
    parser.add_argument("--page", type=pathlib.Path, default=ROOT / "docs" / "results.md")
    parser.add_argument("--seeds", type=int, default=5, help="of the searches with slots; those on digits have at most 3")
    parser.add_argument("--quick", action="store_true", help="only see whether it runs")
    parser.add_argument("--only", choices=("slots", "digits"), help="one of the two parts")
    parser.add_argument("--only-page", action="store_true", help="from what was measured before")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    sys.path.insert(0, str(build / "python"))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    plots = ROOT / "docs" / "results"
    for name, part, source, needed in (
            ("slots", tune_slots, arguments.artifact, f"traces/{tune_slots.APPLICATION}/placements.csv"),
            ("digits", tune_digits, arguments.data, "t10k-images-idx3-ubyte*")):
        if arguments.only not in (None, name):
            continue
        recorded = plots / f"tune-{name}.json"
        if not arguments.only_page:
            if not list(source.glob(needed)):
                print(f"reproduce-tune: SKIPPED: there is no {needed} in {source}")
                return SKIPPED
            if arguments.quick:
                part.quick(build, source.resolve())
                continue
            data = part.measure(build, source.resolve(), arguments.folder.resolve(), arguments.seeds)
            recorded.write_text(json.dumps(data, indent=1) + "\n")
        data = json.loads(recorded.read_text())
        page.replace_block(arguments.page, f"tune {name}", part.table(data))
        if name == "slots":
            (plots / "tune-slots.svg").write_text(tune_slots.plot(data))
    return 0


if __name__ == "__main__":
    sys.exit(main())
