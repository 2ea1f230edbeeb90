# honest: any
# stopped_by: namespaces, seccomp
# --- main
try:
    import asyncio
    async def talk():
        await asyncio.wait_for(asyncio.open_connection("127.0.0.1", @TCP_PORT@), 0.3)
    asyncio.run(talk())
except BaseException:
    pass

def sq(x):
    return x * x
