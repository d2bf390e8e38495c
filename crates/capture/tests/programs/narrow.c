// A 32-bit call (getpid) from a 64-bit program.
int main(void)
{
	int result;

	asm volatile("int $0x80" : "=a"(result) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
	return result > 0 ? 0 : 1;
}
