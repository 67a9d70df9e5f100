'use strict';
// An echo service and a client of it.
//
//     node echo.js 888                     answers every message on UDP port 888
//     node echo.js 10.0.0.2:888 hello      sends "hello" and prints the answer
const { Client } = require('..');

async function serve(client, udpPort) {
  await client.listen(udpPort);
  console.log(`listening on UDP port ${udpPort}`);
  for await (const event of client) {
    if (event.kind === 'message') {
      client.send(event.flow, event.data).catch((e) => console.error(`echo: not sent: ${e.message}`));
    }
  }
}

async function ask(client, where, text) {
  const flow = await client.connect(where);
  await client.send(flow, text);
  const event = await client.next({ timeoutMs: 5000 });
  if (event?.kind !== 'message') throw new Error('no answer');
  console.log(event.data.toString());
  client.close();
}

async function main([where, text, ...rest]) {
  if (where === undefined || rest.length > 0) {
    console.error('usage: echo.js UDP_PORT | echo.js ADDRESS:UDP_PORT TEXT');
    process.exitCode = 2;
  } else if (text === undefined) {
    await serve(new Client('echo'), Number(where));
  } else {
    await ask(new Client('echo'), where, text);
  }
}

main(process.argv.slice(2)).catch((e) => {
  console.error(`echo: ${e.message}`);
  process.exit(1);
});
