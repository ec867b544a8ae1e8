"""
A service that sells features
=============================

``OnDemand`` buys features from an HTTP service, and ``budget`` limits what a fit may pay. The picture compares the bill
with the budget and with the price of all entries.

The service runs on this machine and sells the features of some customers entry by entry, at a price for each feature.
It takes four requests at once and refuses others (HTTP 429, too many requests). The client asks for several entries per
request, makes several requests at a time, and repeats refused requests after a while. A file keeps all entries that
were paid for, so that a later program pays for other entries only.
"""

import asyncio
import json
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC
from maxmargin.data import OnDemand


def main(n=400, d=60, share=0.25, seed=0):
    with Service(n, d, seed) as service, tempfile.TemporaryDirectory() as folder:
        prices = np.array(asked(service.address + "/prices"))
        options = {"cost": prices, "memory": Path(folder) / "features.log", "version": "2026-11"}
        options |= {"workers": 6, "batch_size": 50, "retries": 12, "retry_wait": 0.01}

        async def entries(i, j):
            wanted = {"rows": i.tolist(), "columns": j.tolist()}
            return await asyncio.to_thread(asked, service.address + "/entries", wanted)

        with OnDemand(n, d, entries=entries, **options) as features:
            full_price, budget = n * prices.sum(), share * n * prices.sum()
            model = fit(features, service.y, budget, seed)
            bill, requests = service.bill, service.requests
            print(f"all {n:,} x {d} entries cost {full_price:,.0f}; the budget is {budget:,.0f}")
            print(f"paid            {bill:,.2f} for {features.computed:,} entries in {requests:,} requests")
            print(f"refused         {service.refused:,} requests, which were made again")

        with OnDemand(n, d, entries=entries, **options) as features:
            left = features.rows.prices.sum()
            print(f"still to pay    {left:,.2f} for all other entries, in a later program")
        error = np.mean(np.where(service.X @ model.coef_[0] + model.intercept_ > 0, 1, -1) != service.y)
        print(f"training error  {error:.1%}")
    return service, error, budget, bill, full_price - left


def fit(features, y, budget, seed):
    """Fit with a guess for `scale`, twice the typical norm of a sample: finding the largest would buy all entries."""
    return LinearSVC(
        solver="simba",
        slack=0.1,
        scale=2 * np.sqrt(features.shape[1]),
        budget=budget,
        max_iter=5,
        certify=False,
        random_state=seed,
    ).fit(features, y)


def asked(address, what=None):
    """The answer of the service, as Python objects."""
    with urlopen(Request(address, None if what is None else json.dumps(what).encode()), timeout=30) as answer:
        return json.load(answer)


class Service:
    """The seller: an HTTP server in a thread that takes four requests at a time."""

    def __init__(self, n, d, seed):
        rng = np.random.default_rng(seed)
        w = rng.normal(size=d) * (rng.random(d) < 0.3)
        self.X = rng.normal(size=(n, d))
        self.y = np.where(self.X @ w + 0.3 * rng.normal(size=n) > 0, 1, -1)
        self.prices = rng.choice([0.01, 0.1, 1.0], size=d)
        self.bill, self.requests, self.refused, self.running = 0.0, 0, 0, 0
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("localhost", 0), self.handler())
        self.address = f"http://localhost:{self.server.server_port}"

    def answer(self, wanted):
        """The values of the requested entries; None if there are too many requests."""
        with self.lock:
            if self.running == 4:
                self.refused += 1
                return None
            self.running += 1
        time.sleep(0.002)  # stands for the work of the service
        i, j = wanted["rows"], wanted["columns"]
        values = self.X[i, j].tolist()
        with self.lock:
            self.running -= 1
            self.requests += 1
            self.bill += self.prices[j].sum()
        return values

    def handler(self):
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(service.prices.tolist())

            def do_POST(self):
                self.reply(service.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"])))))

            def reply(self, values):
                self.send_response(429 if values is None else 200)
                self.end_headers()
                self.wfile.write(json.dumps(values).encode())

            def log_message(self, *arguments):
                pass

        return Handler

    def __enter__(self):
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


# %%
# The picture compares the bill with the budget and with the price of all entries.


def draw(service, budget, bill):
    _, axes = plt.subplots(figsize=(6, 2.4), layout="constrained")
    everything = len(service.y) * service.prices.sum()
    axes.barh(["all entries", "the budget", "paid"], [everything, budget, bill], color=["lightgray", "C0", "C1"])
    axes.set(xlabel="price, in the currency of the service")
    plt.show()


if __name__ == "__main__":
    service, _, budget, bill, _ = main()
    draw(service, budget, bill)
