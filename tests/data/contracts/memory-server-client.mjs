// The Node.js client of the Memory Server's document (section 9). Changed: the command comes from the arguments, a reply is
// awaited before the next request is sent, and at the end standard input is closed.
import { spawn } from 'node:child_process';

const [command, ...args] = process.argv.slice(2);
const srv = spawn(command, args, {
  stdio: ['pipe', 'pipe', 'inherit'],
  env: process.env,
});

function rpc(id, method, params) {
  srv.stdin.write(JSON.stringify({ jsonrpc: '2.0', id, method, params }) + '\n');
}

const waiting = new Map();
let held = '';

srv.stdout.on('data', buf => {
  held += buf.toString();
  const lines = held.split('\n');
  held = lines.pop();
  for (const line of lines) {
    const msg = JSON.parse(line);
    console.log('RPC <-', JSON.stringify(msg));
    waiting.get(msg.id)?.(msg);
  }
});

function answered(id, method, params) {
  const reply = new Promise(resolve => waiting.set(id, resolve));
  rpc(id, method, params);
  return reply;
}

await answered('init', 'initialize', {
  protocolVersion: '2024-11-05',
  clientInfo: { name: 'agent', version: '1.0' },
});
await answered('list-tools', 'tools/list');

await answered('save1', 'tools/call', {
  name: 'memory_create',
  arguments: {
    type: 'runbook',
    content: { title: 'Restore from backup', steps: ['stop traffic', 'restore', 'verify'] },
    source: 'agent://pipeline/backup',
    tags: ['project:alpha', 'topic:resilience'],
    confidence: 0.95,
  },
});

srv.stdin.end();
srv.on('exit', code => process.exit(code));
