#include <cstdio>
int main() { std::puts("lazytrain " LAZYTRAIN_VERSION); }
