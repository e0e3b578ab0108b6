// BullMQ: `node bullmq_peer.mjs work`, or MODE JOBS as in bench.py.
import { createRequire } from "node:module";
import { renameSync, writeFileSync } from "node:fs";

const require = createRequire(process.env.BENCH_MODULES + "/");
const { Queue, Worker } = require("bullmq");

const connection = { host: "127.0.0.1", port: Number(process.env.BENCH_PORT) };
const LANES = 1000, BATCH = 100, AT_ONCE = 50, WARM_UP = 200;
const NOTE = "x".repeat(70);

const data = (i) => [`tenant-${String(i % LANES).padStart(4, "0")}`, i, NOTE];

function work() {
  const jobs = Number(process.env.BENCH_JOBS);
  let count = 0, began = 0;
  new Worker(
    "bench",
    async () => {
      count += 1;
      if (count === 1) began = performance.now();
      else if (count === jobs) tell((performance.now() - began) / 1000);
    },
    { connection, concurrency: Number(process.env.C ?? 100), removeOnComplete: { count: 0 } },
  );
}

function tell(seconds) {
  const report = process.env.BENCH_REPORT;
  writeFileSync(report + ".part", JSON.stringify({ seconds }));
  renameSync(report + ".part", report);
}

async function enqueue(mode, jobs) {
  const queue = new Queue("bench", {
    connection,
    defaultJobOptions: { removeOnComplete: true },
  });
  const oneByOne = async (first, step, end) => {
    for (let i = first; i < end; i += step) await queue.add("noop", data(i));
  };
  const send = async (n) => {
    if (mode === "bulk") {
      for (let first = 0; first < n; first += BATCH) {
        const part = [];
        for (let i = first; i < Math.min(first + BATCH, n); i += 1) part.push({ name: "noop", data: data(i) });
        await queue.addBulk(part);
      }
    } else if (mode === "at_once") {
      await Promise.all(Array.from({ length: AT_ONCE }, (_, first) => oneByOne(first, AT_ONCE, n)));
    } else await oneByOne(0, 1, n);
  };
  await send(WARM_UP);
  const began = performance.now();
  await send(jobs);
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000 }));
  await queue.close();
}

const [mode, jobs] = process.argv.slice(2);
if (mode === "work") work();
else await enqueue(mode, Number(jobs));
