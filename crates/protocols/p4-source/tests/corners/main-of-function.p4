// 18.2 a function may be called `main`
void main() { }
