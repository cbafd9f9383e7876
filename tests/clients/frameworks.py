"""Agent frameworks that others wrote, each at `/mcp` of a hub: `frameworks.py FRAMEWORK ADDRESS KEY TOOL`.

Lists the tools as the framework makes them for a model, calls TOOL by what the framework calls it, and writes JSON:
`{"tools": […], "called": text}`. Runs in an environment of its own (see `install.AGENTS`); each imports what it needs.
"""

import asyncio
import json
import sys

WORDS = {"text": "by an agent"}


async def openai_agents(url, headers, tool):
    from agents.mcp import MCPServerStreamableHttp, MCPUtil

    async with MCPServerStreamableHttp(params={"url": url, "headers": headers}) as server:
        found = await server.list_tools()
        functions = [MCPUtil.to_function_tool(each, server, convert_schemas_to_strict=False) for each in found]
        result = await server.call_tool(tool, WORDS)
        return [each.name for each in functions], result.content[0].text


async def pydantic_ai(url, headers, tool):
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    try:
        from pydantic_ai.mcp import MCPToolset as Server
    except ImportError:
        from pydantic_ai.mcp import MCPServerStreamableHTTP as Server
    names, results = [], []

    def model(messages, info):
        names[:] = [each.name for each in info.function_tools]
        returned = [part for part in messages[-1].parts if part.part_kind == "tool-return"]
        if returned:
            results.append(str(returned[0].content))
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart(tool, WORDS)])

    agent = Agent(FunctionModel(model), toolsets=[Server(url, headers=headers)])
    await agent.run("Repeat it.")
    return names, results[0]


async def langchain(url, headers, tool):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"hub": {"transport": "streamable_http", "url": url, "headers": headers}})
    found = await client.get_tools()
    (wanted,) = (each for each in found if each.name == tool)
    return [each.name for each in found], str(await wanted.ainvoke(WORDS))


async def llama_index(url, headers, tool):
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    found = await McpToolSpec(client=BasicMCPClient(url, headers=headers)).to_tool_list_async()
    (wanted,) = (each for each in found if each.metadata.name == tool)
    return [each.metadata.name for each in found], str(await wanted.acall(**WORDS))


async def smolagents(url, headers, tool):
    from smolagents import MCPClient

    def work():
        with MCPClient({"url": url, "transport": "streamable-http", "headers": headers}) as found:
            (wanted,) = (each for each in found if each.name == tool)
            return [each.name for each in found], str(wanted(**WORDS))

    return await asyncio.to_thread(work)


async def fastmcp(url, headers, tool):
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport

    async with Client(StreamableHttpTransport(url, headers=headers)) as client:
        found = await client.list_tools()
        result = await client.call_tool(tool, WORDS)
        return [each.name for each in found], result.content[0].text


async def mcp_use(url, headers, tool):
    from mcp_use import MCPClient

    client = MCPClient({"mcpServers": {"hub": {"url": url, "headers": headers}}})
    session = await client.create_session("hub")
    try:
        found = await session.list_tools()
        result = await session.call_tool(tool, WORDS)
        return [each.name for each in found], result.content[0].text
    finally:
        await client.close_all_sessions()


async def agno(url, headers, tool):
    from agno.tools.mcp import MCPTools, StreamableHTTPClientParams

    given = StreamableHTTPClientParams(url=url, headers=headers)
    async with MCPTools(transport="streamable-http", server_params=given) as toolkit:
        wanted = toolkit.functions[tool]
        result = await wanted.entrypoint(**WORDS)
        return list(toolkit.functions), str(getattr(result, "content", result))


async def google_adk(url, headers, tool):
    from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams

    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=url, headers=headers))
    try:
        found = await toolset.get_tools()
        (wanted,) = (each for each in found if each.name == tool)
        wanted._get_declaration()
        session = await toolset._mcp_session_manager.create_session(headers=headers)
        result = await session.call_tool(tool, arguments=WORDS)
        return [each.name for each in found], result.content[0].text
    finally:
        await toolset.close()


async def autogen(url, headers, tool):
    from autogen_core import CancellationToken
    from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

    found = await mcp_server_tools(StreamableHttpServerParams(url=url, headers=headers))
    (wanted,) = (each for each in found if each.name == tool)
    result = await wanted.run_json(WORDS, CancellationToken())
    return [each.name for each in found], wanted.return_value_as_string(result)


async def crewai(url, headers, tool):
    from crewai_tools import MCPServerAdapter

    def work():
        with MCPServerAdapter({"url": url, "transport": "streamable-http", "headers": headers}) as found:
            (wanted,) = (each for each in found if each.name == tool)
            return [each.name for each in found], str(wanted.run(**WORDS))

    return await asyncio.to_thread(work)


def main():
    framework, url, key, tool = sys.argv[1:]
    work = globals()[framework.replace("-", "_")]
    tools, called = asyncio.run(work(url, {"Authorization": f"Bearer {key}"}, tool))
    print(json.dumps({"tools": sorted(tools), "called": called}))


if __name__ == "__main__":
    main()
