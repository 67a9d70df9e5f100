/*
 * An echo service and a client of it.
 *
 *     echo 888                     answers every message on UDP port 888
 *     echo 10.0.0.2:888 hello      sends "hello" and prints the answer
 *
 * Needs a running daemon (barewire up); BAREWIRE_SOCKET names another than the default one.
 */
#include <barewire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what) {
  fprintf(stderr, "echo: %s: %s\n", what, bw_last_error());
  exit(1);
}

/* Takes a message out of the shared memory. The caller frees it. */
static char *take(bw_client *client, bw_message *message, size_t *len) {
  *len = bw_message_len(message);
  char *text = malloc(*len + 1);
  if (text == NULL) abort();
  if (bw_message_read(client, message, text, *len) < 0) die("read");
  text[*len] = 0;
  if (bw_message_release(client, message) < 0) die("release");
  return text;
}

static void serve(bw_client *client, uint16_t udp_port) {
  if (bw_listen_wait(client, udp_port, 0, 5000) < 0) die("listen");
  printf("listening on UDP port %u\n", udp_port);
  fflush(stdout);
  for (;;) {
    bw_event event;
    int got = bw_wait_event(client, -1, &event);
    if (got == BW_ERR_INTERRUPTED) continue;
    if (got < 0) die("wait");
    if (event.kind != BW_EVENT_MESSAGE) continue;
    size_t len;
    char *text = take(client, &event.message, &len);
    int sent = bw_send(client, event.flow, text, len);
    if (sent < 0) fprintf(stderr, "echo: not sent: %s\n", bw_strerror(sent));
    free(text);
  }
}

static void ask(bw_client *client, const char *where, const char *text) {
  bw_addr addr;
  bw_flow flow;
  bw_event event;
  if (bw_addr_parse(where, 0, &addr) < 0) die("address");
  if (bw_connect_wait(client, &addr, NULL, 5000, &flow) < 0) die("connect");
  if (bw_send(client, flow, text, strlen(text)) < 0) die("send");
  int got;
  while ((got = bw_wait_event(client, 5000, &event)) == 1) {
    if (event.kind == BW_EVENT_MESSAGE) {
      size_t len;
      char *answer = take(client, &event.message, &len);
      printf("%s\n", answer);
      free(answer);
      /* Closed in order: what was sent arrives. */
      bw_close(client, flow);
    } else if (event.kind == BW_EVENT_CLOSED) {
      return;
    }
  }
  if (got == 0) {
    fprintf(stderr, "echo: no answer\n");
    exit(1);
  }
  die("wait");
}

int main(int argc, char **argv) {
  bw_client *client;
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: echo UDP_PORT | echo ADDRESS:UDP_PORT TEXT\n");
    return 2;
  }
  if (bw_client_attach("echo", NULL, &client) < 0) die("attach");
  if (argc == 2)
    serve(client, (uint16_t)atoi(argv[1]));
  else
    ask(client, argv[1], argv[2]);
  bw_client_free(client);
  return 0;
}
