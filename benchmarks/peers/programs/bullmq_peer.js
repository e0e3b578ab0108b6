// BullMQ, like bench.py and a program in one: `work`, or MODE JOBS.

const { renameSync, writeFileSync } = require("node:fs");
const { Queue, Worker } = require("bullmq");

const LANES = 1000;
const BATCH = 100;
const AT_ONCE = 50;
const NOTE = "x".repeat(70);
const connection = { host: "127.0.0.1", port: Number(process.env.BENCH_PORT) };

function data(i) {
  return [`tenant-${String(i % LANES).padStart(4, "0")}`, i, NOTE];
}

function warmUp(jobs) {
  return Math.floor(jobs / 4);
}

function work(jobs) {
  const first = warmUp(jobs);
  let count = 0;
  let began = 0;
  const noop = async () => {
    count += 1;
    if (count === first) began = performance.now();
    else if (count === first + jobs) tell((performance.now() - began) / 1000);
  };
  // Concurrency: its guide says 100 to 300; more were no faster. Locks and their renewal stay.
  new Worker("bench", noop, { connection, concurrency: 100 });
}

function tell(seconds) {
  const report = process.env.BENCH_REPORT;
  writeFileSync(`${report}.part`, JSON.stringify({ seconds }));
  renameSync(`${report}.part`, report);
}

async function enqueue(mode, jobs) {
  // Else every finished job is kept.
  const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });

  async function oneByOne(first, end) {
    for (let i = first; i < end; i += AT_ONCE) await queue.add("noop", data(i));
  }

  async function inBatches(end) {
    for (let first = 0; first < end; first += BATCH) {
      const numbers = Array.from({ length: Math.min(BATCH, end - first) }, (_, k) => first + k);
      await queue.addBulk(numbers.map((i) => ({ name: "noop", data: data(i) })));
    }
  }

  const send = (end) =>
    mode === "at_once"
      ? Promise.all(Array.from({ length: AT_ONCE }, (_, first) => oneByOne(first, end)))
      : inBatches(end);

  await send(warmUp(jobs));
  const began = performance.now();
  await send(jobs);
  console.log(JSON.stringify({ seconds: (performance.now() - began) / 1000 }));
  await queue.close();
}

const [mode, jobs] = process.argv.slice(2);
if (mode === "work") work(Number(process.env.BENCH_JOBS));
else enqueue(mode, Number(jobs));
