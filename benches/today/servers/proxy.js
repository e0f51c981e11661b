// node proxy.js HOST PORT ORIGIN_HOST ORIGIN_PORT: Node's own HTTP server and client, as they are.
'use strict'
const http = require('node:http')
const [host, port, originHost, originPort] = process.argv.slice(2)

http.createServer((request, answer) => {
  const options = { host: originHost, port: originPort, path: request.url }
  const asked = http.get(options, (got) => {
    answer.writeHead(got.statusCode, { 'content-type': 'text/plain' })
    got.pipe(answer)
  })
  asked.on('error', (error) => answer.writeHead(502).end(error.message))
}).listen(port, host)
