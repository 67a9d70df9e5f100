// v1model has two editions, told apart by a number
#define V1MODEL_VERSION 20200408
#include <v1model.p4>
const PortId_t port = 1;
