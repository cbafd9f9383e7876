"""Agent frameworks that others wrote, each at a hub: `frameworks.py FRAMEWORK ADDRESS KEY TOOL MODELS PROMPT`.

Lists the tools as the framework makes them for a model, calls TOOL by what the framework calls it, then asks the model
`default` at MODELS, the hub's `/v1`, by PROMPT, with the tools of `/mcp`. Writes JSON: `{"tools": […], "called": text,
"answered": text}`. Runs in an environment of its own (see `install.AGENTS`); each imports what it needs.
"""

import asyncio
import json
import os
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

    client = MCPClient(_mcp_use_configuration(url, headers))
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


async def ask_openai_agents(url, headers, models, key, prompt):
    from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled
    from agents.mcp import MCPServerStreamableHttp
    from openai import AsyncOpenAI

    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(model="default", openai_client=AsyncOpenAI(base_url=models, api_key=key))
    async with MCPServerStreamableHttp(params={"url": url, "headers": headers}) as server:
        return (await Runner.run(Agent(name="asks", model=model, mcp_servers=[server]), prompt)).final_output


async def ask_pydantic_ai(url, headers, models, key, prompt):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    try:
        from pydantic_ai.mcp import MCPToolset as Server
    except ImportError:
        from pydantic_ai.mcp import MCPServerStreamableHTTP as Server
    model = OpenAIChatModel("default", provider=OpenAIProvider(base_url=models, api_key=key))
    return (await Agent(model, toolsets=[Server(url, headers=headers)]).run(prompt)).output


async def ask_langchain(url, headers, models, key, prompt):
    from langchain.agents import create_agent
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_openai import ChatOpenAI

    client = MultiServerMCPClient({"hub": {"transport": "streamable_http", "url": url, "headers": headers}})
    agent = create_agent(ChatOpenAI(model="default", base_url=models, api_key=key), await client.get_tools())
    said = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]})
    return said["messages"][-1].content


async def ask_llama_index(url, headers, models, key, prompt):
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.llms.openai_like import OpenAILike
    from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

    found = await McpToolSpec(client=BasicMCPClient(url, headers=headers)).to_tool_list_async()
    model = OpenAILike(
        model="default", api_base=models, api_key=key, is_chat_model=True, is_function_calling_model=True
    )
    return str(await FunctionAgent(tools=found, llm=model).run(prompt))


async def ask_smolagents(url, headers, models, key, prompt):
    from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

    def work():
        with MCPClient({"url": url, "transport": "streamable-http", "headers": headers}) as found:
            model = OpenAIModel(model_id="default", api_base=models, api_key=key)
            return str(ToolCallingAgent(tools=list(found), model=model, max_steps=3, verbosity_level=0).run(prompt))

    return await asyncio.to_thread(work)


async def ask_fastmcp(url, headers, models, key, prompt):
    """FastMCP has no agent: its client's tools, passed on by OpenAI's client."""
    from fastmcp import Client
    from fastmcp.client.transports import StreamableHttpTransport
    from openai import AsyncOpenAI

    model = AsyncOpenAI(base_url=models, api_key=key)
    said = [{"role": "user", "content": prompt}]
    async with Client(StreamableHttpTransport(url, headers=headers)) as client:
        functions = [
            {"type": "function", "function": {"name": each.name, "parameters": each.inputSchema}}
            for each in await client.list_tools()
        ]
        while True:
            answer = await model.chat.completions.create(model="default", messages=said, tools=functions)
            message = answer.choices[0].message
            if not message.tool_calls:
                return message.content
            said.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = await client.call_tool(call.function.name, json.loads(call.function.arguments))
                said.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})


async def ask_mcp_use(url, headers, models, key, prompt):
    from langchain_openai import ChatOpenAI
    from mcp_use import MCPAgent, MCPClient

    client = MCPClient(_mcp_use_configuration(url, headers))
    agent = MCPAgent(llm=ChatOpenAI(model="default", base_url=models, api_key=key), client=client, max_steps=5)
    try:
        return str(await agent.run(prompt))
    finally:
        await client.close_all_sessions()


async def ask_agno(url, headers, models, key, prompt):
    from agno.agent import Agent
    from agno.models.openai.like import OpenAILike
    from agno.tools.mcp import MCPTools, StreamableHTTPClientParams

    given = StreamableHTTPClientParams(url=url, headers=headers)
    async with MCPTools(transport="streamable-http", server_params=given) as toolkit:
        model = OpenAILike(id="default", base_url=models, api_key=key)
        return str((await Agent(model=model, tools=[toolkit], telemetry=False).arun(prompt)).content)


async def ask_google_adk(url, headers, models, key, prompt):
    from google.adk.agents import LlmAgent
    from google.adk.models.lite_llm import LiteLlm
    from google.adk.runners import InMemoryRunner
    from google.adk.tools.mcp_tool import McpToolset, StreamableHTTPConnectionParams
    from google.genai import types

    toolset = McpToolset(connection_params=StreamableHTTPConnectionParams(url=url, headers=headers))
    model = LiteLlm(model="openai/default", api_base=models, api_key=key)
    runner = InMemoryRunner(LlmAgent(name="asks", model=model, tools=[toolset]), app_name="asks")
    session = await runner.session_service.create_session(app_name="asks", user_id="somebody")
    question = types.Content(role="user", parts=[types.Part(text=prompt)])
    said = ""
    async for event in runner.run_async(user_id="somebody", session_id=session.id, new_message=question):
        parts = event.content.parts if event.content is not None else []
        said = "".join(part.text or "" for part in parts or []) or said
    await toolset.close()
    return said


async def ask_autogen(url, headers, models, key, prompt):
    from autogen_agentchat.agents import AssistantAgent
    from autogen_ext.models.openai import OpenAIChatCompletionClient
    from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

    can = {
        "vision": False,
        "function_calling": True,
        "json_output": False,
        "structured_output": False,
        "family": "unknown",
    }
    model = OpenAIChatCompletionClient(model="default", base_url=models, api_key=key, model_info=can)
    found = await mcp_server_tools(StreamableHttpServerParams(url=url, headers=headers))
    agent = AssistantAgent("asks", model_client=model, tools=found, reflect_on_tool_use=True)
    return str((await agent.run(task=prompt)).messages[-1].content)


async def ask_crewai(url, headers, models, key, prompt):
    from crewai import LLM, Agent
    from crewai_tools import MCPServerAdapter

    def work():
        with MCPServerAdapter({"url": url, "transport": "streamable-http", "headers": headers}) as found:
            model = LLM(model="openai/default", base_url=models, api_key=key)
            words = {"role": "asks", "goal": "to know", "backstory": "none"}
            return str(Agent(**words, llm=model, tools=list(found)).kickoff(prompt).raw)

    return await asyncio.to_thread(work)


def _mcp_use_configuration(url, headers):
    """Return the key as `auth`: without, mcp-use asks for a login wherever it finds an authorization server."""
    return {"mcpServers": {"hub": {"url": url, "auth": headers["Authorization"].removeprefix("Bearer ")}}}


def main():
    framework, url, key, tool, models, prompt = sys.argv[1:]
    # Nothing of a rig is told to those who wrote the frameworks.
    os.environ |= {
        "MCP_USE_ANONYMIZED_TELEMETRY": "false",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "OTEL_SDK_DISABLED": "true",
        "AGNO_TELEMETRY": "false",
        "CREWAI_TRACING_ENABLED": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }
    name, headers = framework.replace("-", "_"), {"Authorization": f"Bearer {key}"}
    tools, called = asyncio.run(globals()[name](url, headers, tool))
    answered = asyncio.run(globals()[f"ask_{name}"](url, headers, models, key, prompt))
    print(json.dumps({"tools": sorted(tools), "called": called, "answered": answered}))


if __name__ == "__main__":
    main()
