/** Low-latency messages and requests through the barewire daemon. */
package dev.barewire;
