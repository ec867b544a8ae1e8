"""Spark's LinearSVC in a process of its own, for cluster_linear.py; it runs in a Python that has pyspark.

    PYTHON benchmarks/cluster_spark.py FOLDER --cores 2 --memory 12g

FOLDER contains Parquet files with columns f0, f1, ... and a column label, 0 or 1. The script reads them, assembles them
to vectors, caches these, and writes the line {"rows": ..., "wall": ..., "cpu": ...}. Each line of the standard input
asks for a fit, {"regParam": 1e-7, "maxIter": 100, "tol": 1e-6}. The answer is a line with the wall seconds of the fit,
the CPU seconds and the peak memory of all processes (Python and the JVM), the bytes of the results of tasks, the
iterations, the objective after each iteration as Spark computes it, the coefficients and the intercept. Features are
not standardised, so Spark minimises regParam / 2 |w|^2 plus the mean hinge loss, with an intercept that is not
regularised.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from typing import Any
from urllib.request import urlopen

import processes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder of the Parquet files")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="12g", help="heap size of the JVM")
    chosen = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Spark prints must not get into the answers
    from pyspark.ml.classification import LinearSVC
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(f"local[{chosen.cores}]")
        .config("spark.driver.memory", chosen.memory)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.retainedStages", "100000")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    wall, cpu = time.perf_counter(), total_cpu()
    frame = spark.read.parquet(chosen.folder)
    assembler = VectorAssembler(inputCols=[name for name in frame.columns if name != "label"], outputCol="features")
    data = assembler.transform(frame).select("features", "label").cache()
    rows = data.count()
    told = {"rows": rows, "partitions": data.rdd.getNumPartitions(), "version": spark.version}
    send(answers, told | {"wall": time.perf_counter() - wall, "cpu": total_cpu() - cpu})
    for line in sys.stdin:
        pids = processes.process_tree()
        processes.forget_peaks(pids)
        results = result_bytes(spark)
        wall, cpu = time.perf_counter(), total_cpu()
        model = LinearSVC(standardization=False, **json.loads(line)).fit(data)
        took = {"wall": time.perf_counter() - wall, "cpu": total_cpu() - cpu}
        summary = model.summary()
        send(
            answers,
            took
            | {
                "peak": sum(processes.peaks(pids).values()),
                "result_bytes": result_bytes(spark) - results,
                "iterations": int(summary.totalIterations),
                "history": list(summary.objectiveHistory),
                "coef": model.coefficients.toArray().tolist(),
                "intercept": float(model.intercept),
            },
        )
    spark.stop()


def total_cpu() -> float:
    return sum(processes.cpu_seconds(processes.process_tree()).values())


def result_bytes(spark: Any) -> int:
    """Bytes of the results that tasks have sent to the driver so far, as Spark's own interface reports them."""
    context = spark.sparkContext
    try:
        with urlopen(f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages") as answer:
            return sum(stage.get("resultSize", 0) for stage in json.load(answer))
    except OSError:
        return 0


def send(answers: Any, line: dict[str, Any]) -> None:
    answers.write(json.dumps(line) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
